"""Record the finished examples that everybody sees first: a real sweep on this machine with its environment, its
diagnosis, noise and memory studies, a pipeline study and a frontier.

    python -m benchmarks.record_example [sweep diagnosis pipeline frontier noise memory] [--budget 180] [--study 120]

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
from core.analysis.frontier_answer import frontier_answer
from core.analysis.memory_answer import memory_answer
from core.analysis.pipeline import pipeline_answer
from core.examples import (
    DIAGNOSIS_FILE,
    EXAMPLE_FILE,
    FRONTIER_FILE,
    MEMORY_FILE,
    NOISE_FILE,
    PIPELINE_FILE,
    load_example,
)
from core.frontier import FrontierPlan, Setting
from core.measure.clock import WallClock
from core.measure.diagnose import default_batch, run_diagnosis
from core.measure.frontier import run_frontier
from core.measure.lock import machine_lock
from core.measure.memory_study import run_memory_study
from core.measure.noise import NoiseSampler
from core.measure.noise_study import run_noise_study
from core.measure.process import launch_processes
from core.measure.studies import ExperimentPlan, StudyTools, measure_arms
from core.memory_study import MemoryPlan
from core.noise_study import NoisePlan
from core.pipeline_study import DEFAULT_BASE, PipelineStudy
from core.results import Run
from core.spec import SweepPlan, Target, Workload, parse_batches

WORKLOAD = Workload(network="784-512-512-10")
DIAGNOSED = 1
NOISE_S, NOISE_LOSS, MEMORY_S = 60.0, 1.6, 90.0  # the loss is one that a minute of training reaches
MEMORY_BYTES = 1_000_000_000  # small, so that the search ends below the largest batch there is


KINDS = ("sweep", "diagnosis", "pipeline", "frontier", "noise", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all unless some are named")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for the sweep")
    parser.add_argument("--study", type=float, default=120.0, help="seconds for the diagnosis and the pipeline study")
    parser.add_argument("--map", type=float, default=360.0, help="seconds for the frontier")
    options = parser.parse_args()
    wanted = options.kinds or KINDS
    tools = StudyTools(launch_processes, WallClock(), threading.Event(), NoiseSampler, lambda _: None)
    with machine_lock("the recording of the examples"):
        run = sweep(options.budget) if "sweep" in wanted else load_example()
        if "diagnosis" in wanted:
            diagnosis(tools, run, options.study)
        if "pipeline" in wanted:
            pipeline(tools, options.study)
        if "frontier" in wanted:
            frontier(tools, options.map)
        if "noise" in wanted:
            noise(tools, run)
        if "memory" in wanted:
            memory(tools, run)


def sweep(budget_s: float) -> Run:
    plan = SweepPlan(
        workload=WORKLOAD,
        targets=(Target.parse("cpu,threads=1"), Target.parse("cpu,threads=2")),
        batches=parse_batches("1:1024"),
        budget_s=budget_s,
    )
    run = measure(plan)
    name = "Example: one CPU thread against two, 784-512-512-10, training with Adam"
    run = run.model_copy(update={"label": "recorded", "id": f"example-{run.created_at[:10]}", "name": name})
    write(EXAMPLE_FILE, run.to_json(), analyse(run).verdict.sentence)
    return run


def diagnosis(tools: StudyTools, run: Run, budget_s: float) -> None:
    found = run_diagnosis(tools, run, DIAGNOSED, default_batch(run, analyse(run), DIAGNOSED), budget_s)
    reruns = tuple(r.model_copy(update={"run": r.run.model_copy(update={"label": "recorded"})}) for r in found.reruns)
    experiment = found.experiment.model_copy(update={"label": "recorded"})
    found = found.model_copy(update={"experiment": experiment, "reruns": reruns})
    write(DIAGNOSIS_FILE, found.to_json(), diagnose(run, found).sentence)


def pipeline(tools: StudyTools, budget_s: float) -> None:
    study = PipelineStudy(workload=WORKLOAD, target=Target(), batch=64, base=DEFAULT_BASE, budget_s=budget_s)
    found = measure_arms(tools, ExperimentPlan(study.workload, study.arms, study.budget_s))
    found = found.model_copy(update={"label": "recorded"})
    write(PIPELINE_FILE, found.to_json(), pipeline_answer(found).sentence)


def frontier(tools: StudyTools, budget_s: float) -> None:
    plan = FrontierPlan(
        depths=(1, 2, 4, 8),
        widths=(32, 64, 128, 256, 512, 1024),
        batches=(1, 4, 16, 64, 256, 1024),
        targets=(Target.parse("cpu,threads=1,execution=xla"), Target.parse("cpu,threads=2")),
        point=Setting(2, 512, 64),
        budget_s=budget_s,
    )
    found = run_frontier(tools, plan).model_copy(update={"label": "recorded"})
    write(FRONTIER_FILE, found.to_json(), frontier_answer(found).sentence)


def noise(tools: StudyTools, run: Run) -> None:
    """Of the example's own workload, trained with two threads to a loss that a minute reaches."""
    plan = NoisePlan(workload=WORKLOAD, run_id=run.id, target_loss=NOISE_LOSS, budget_s=NOISE_S)
    found = run_noise_study(tools, plan)
    found = found.model_copy(update={"label": "recorded"})
    write(NOISE_FILE, found.to_json(), f"{found.steps_to_loss} steps to loss {found.target_loss:.2f}")


def memory(tools: StudyTools, run: Run) -> None:
    """Of the example's second target, under a limit that its sweep's machine could give to one of two workers."""
    target = Target.parse(run.target_names[1])
    plan = MemoryPlan(workload=WORKLOAD, target=target, limit_bytes=MEMORY_BYTES, budget_s=MEMORY_S, run_id=run.id)
    found = run_memory_study(tools, plan).model_copy(update={"label": "recorded"})
    write(MEMORY_FILE, found.to_json(), memory_answer(found).sentence)


def write(path: Path, text: str, said: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
    print(said, flush=True)


if __name__ == "__main__":
    main()
