"""Record the finished examples that everybody sees first: a real sweep on this machine with its environment, the
diagnosis of its second target, and a pipeline study.

    python -m benchmarks.record_example [--budget 90] [--study 120]

Writes core/data/example*.json. Only labels and names change on the way: what is measured here is recorded for
everyone else.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from benchmarks.repeatability import measure
from core.analysis.analyse import analyse
from core.analysis.findings import diagnose
from core.analysis.pipeline import pipeline_answer
from core.examples import DIAGNOSIS_FILE, EXAMPLE_FILE, PIPELINE_FILE
from core.experiment import Diagnosis, Experiment
from core.measure.clock import WallClock
from core.measure.diagnose import default_batch, run_diagnosis
from core.measure.lock import machine_lock
from core.measure.noise import NoiseSampler
from core.measure.process import launch_processes
from core.measure.studies import ExperimentPlan, StudyTools, measure_arms
from core.pipeline_study import DEFAULT_BASE, PipelineStudy
from core.results import Run
from core.spec import SweepPlan, Target, Workload, parse_batches

WORKLOAD = Workload(network="784-512-512-10")
DIAGNOSED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for the sweep")
    parser.add_argument("--study", type=float, default=120.0, help="seconds for the diagnosis and for the study")
    options = parser.parse_args()
    tools = StudyTools(launch_processes, WallClock(), threading.Event(), NoiseSampler, lambda _: None)
    with machine_lock("the recording of the examples"):
        run = sweep(options.budget)
        print(analyse(run).verdict.sentence, flush=True)
        write(EXAMPLE_FILE, run.to_json())
        found = diagnosis(tools, run, options.study)
        print(diagnose(run, found).sentence, flush=True)
        write(DIAGNOSIS_FILE, found.to_json())
        fed = pipeline(tools, options.study)
        print(pipeline_answer(fed).sentence)
        write(PIPELINE_FILE, fed.to_json())


def sweep(budget_s: float) -> Run:
    plan = SweepPlan(
        workload=WORKLOAD,
        targets=(Target.parse("cpu,threads=1"), Target.parse("cpu,threads=2")),
        batches=parse_batches("1:1024"),
        budget_s=budget_s,
    )
    run = measure(plan)
    name = "Example: one CPU thread against two, 784-512-512-10, training with Adam"
    return run.model_copy(update={"label": "recorded", "id": f"example-{run.created_at[:10]}", "name": name})


def diagnosis(tools: StudyTools, run: Run, budget_s: float) -> Diagnosis:
    found = run_diagnosis(tools, run, DIAGNOSED, default_batch(run, analyse(run), DIAGNOSED), budget_s)
    reruns = tuple(r.model_copy(update={"run": r.run.model_copy(update={"label": "recorded"})}) for r in found.reruns)
    experiment = found.experiment.model_copy(update={"label": "recorded"})
    return found.model_copy(update={"experiment": experiment, "reruns": reruns})


def pipeline(tools: StudyTools, budget_s: float) -> Experiment:
    study = PipelineStudy(workload=WORKLOAD, target=Target(), batch=64, base=DEFAULT_BASE, budget_s=budget_s)
    found = measure_arms(tools, ExperimentPlan(study.workload, study.arms, study.budget_s))
    return found.model_copy(update={"label": "recorded"})


def write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
