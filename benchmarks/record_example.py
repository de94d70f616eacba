"""Record the finished examples that everybody sees first: a real sweep on this machine with its environment, its
diagnosis, noise and memory studies, a pipeline study, a frontier, served requests, what the host costs, and a job.
Several GPUs are simulated, and labelled so.

    python -m benchmarks.record_example [sweep diagnosis … job scaling] [--budget 180]
    python -m benchmarks.record_example gpu --measured RUN.json

Writes core/data/example*.json. Only labels and names change: what is measured here is labelled recorded for everyone
else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.real import real_tools, sweep
from core.base.evidence import Environment
from core.cli.run import USUAL_CARDS
from core.machine.lock import machine_lock
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.rounds.run import Run, only
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.run import DiagnosisPlan, default_batch
from core.studies.fleet.collect import Found, collect
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetStudy
from core.studies.frontier.kind import FRONTIER
from core.studies.frontier.record import FrontierPlan, Setting
from core.studies.host.kind import HOST
from core.studies.host.run import HostPlan
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, JobStudy, Script
from core.studies.kind import Context, Kind
from core.studies.memory.kind import MEMORY
from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch
from core.studies.noise.kind import GRADIENT_NOISE
from core.studies.noise.record import NoisePlan
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import PipelinePlan
from core.studies.registry import DATA, SWEEPS, load_example, sweep_example
from core.studies.runner import StudyTools
from core.studies.scaling.kind import SCALING
from core.studies.serving.kind import SERVING
from core.studies.serving.prediction import plan_to_serve, serving_answer
from core.studies.serving.service import Service
from core.studies.sweep.kind import SWEEP
from core.studies.validation.record import private_environment
from core.workload.spec import Pipeline, Target, Workload, parse_batches
from simulated.scalings import make_scaling_study

WORKLOAD = Workload(network="784-512-512-10")
DIAGNOSED = 1
NOISE_S, NOISE_LOSS, MEMORY_S = 60.0, 1.6, 90.0  # a loss that a minute of training reaches
SCRIPT = Script(path="example_training.py", python=sys.executable, folder=str(Path(__file__).parent / "scripts"))
MEMORY_BYTES = 1_000_000_000  # small, so that the search ends below the largest possible batch


KINDS = (
    "sweep", "inference", "serving", "diagnosis", "pipeline", "frontier", "noise", "memory", "host", "job", "scaling",
    "fleet",
)  # fmt: skip
ELSEWHERE = {
    "gpu": "Example: an NVIDIA H200 against its host's CPU, 784-512-512-10, inference",
    "gpu-training": "Example: an NVIDIA H200 against its host's CPU, 784-512-512-10, training with Adam",
}
"""Names of the examples of machines with a GPU."""
SERVED = Service(limit_ms=30.0, max_batch=16, pads=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all unless some are named")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for the sweep")
    parser.add_argument("--study", type=float, default=120.0, help="seconds for the diagnosis and the pipeline study")
    parser.add_argument("--map", type=float, default=360.0, help="seconds for the frontier")
    parser.add_argument("--measured", help=f"a sweep measured elsewhere, for one of {', '.join(ELSEWHERE)}")
    options = parser.parse_args()
    if options.measured is not None:
        (which,) = options.kinds
        run = Run.from_json(Path(options.measured).read_bytes())
        ship(run, ELSEWHERE[which], SWEEPS[which], f"example-{which}")
        return
    wanted = options.kinds or KINDS
    with machine_lock("the recording of the examples"), real_tools() as tools:
        run = example_sweep(options.budget) if "sweep" in wanted else load_example(SWEEP.name)
        inference = inference_sweep(options.budget) if "inference" in wanted else sweep_example("inference")
        plans: dict[Kind[Any, Any, Any], Any] = {
            DIAGNOSIS: DiagnosisPlan(run, DIAGNOSED, default_batch(run, analyse(run), DIAGNOSED), options.study),
            PIPELINE: PipelinePlan(workload=WORKLOAD, target=Target(), batch=64, budget_s=options.study),
            FRONTIER: frontier_plan(options.map),
            GRADIENT_NOISE: NoisePlan(workload=WORKLOAD, run_id=run.id, target_loss=NOISE_LOSS, budget_s=NOISE_S),
            MEMORY: MemorySearch(memory_plan(run)),
            HOST: HostPlan(),
            SERVING: plan_to_serve(
                inference, serving_answer(inference, analyse(inference), SERVED), budget_s=options.study
            ),
            JOB: JobPlan(script=SCRIPT, gpus=USUAL_CARDS, budget_s=options.study),
        }
        for kind, plan in plans.items():
            if kind.name in wanted:
                record(kind, tools, plan, run)
        if "fleet" in wanted:
            write(FLEET, example_fleet(options.study), run)
    if "scaling" in wanted:
        simulated = make_scaling_study(processes=3, label="simulated", name="Simulated: one GPU against two")
        write(SCALING, simulated, run)


def record(kind: Kind[Any, Any, Any], tools: StudyTools, plan: Any, run: Run) -> None:
    """Measure a study and write it."""
    write(kind, recorded(kind.run(tools, plan)), run)


def write(kind: Kind[Any, Any, Any], study: Any, run: Run) -> None:
    """Write a study as a shipped example."""
    context = Context(run=run)
    text = kind.text(study, kind.answer(study, context), context)
    assert kind.example is not None
    (DATA / kind.example).write_text(study.to_json() + "\n", encoding="utf-8")
    print(text.splitlines()[0], flush=True)


def recorded(study: Any) -> Any:
    """Return the record labelled recorded, including its parts."""
    if isinstance(study, JobStudy) and study.sweep is not None:
        study = study.model_copy(update={"sweep": recorded(study.sweep)})
    if not isinstance(study, Diagnosis):
        return study.model_copy(update={"label": "recorded"})
    reruns = tuple(rerun.model_copy(update={"run": recorded(rerun.run)}) for rerun in study.reruns)
    return study.model_copy(update={"experiment": recorded(study.experiment), "reruns": reruns})


def example_sweep(budget_s: float) -> Run:
    assert SWEEP.example is not None
    name = "Example: one CPU thread against two, 784-512-512-10, training with Adam"
    return of_threads(WORKLOAD, "1:1024", budget_s, name, SWEEP.example)


def inference_sweep(budget_s: float) -> Run:
    workload = Workload(network="784-2048-2048-10", mode="infer")
    name = "Example: one CPU thread against two, 784-2048-2048-10, inference"
    host = Pipeline(kind="host")  # as requests bring their inputs
    return of_threads(workload, "1:256", budget_s, name, SWEEPS["inference"], host)


def of_threads(
    workload: Workload, batches: str, budget_s: float, name: str, file: str, pipeline: Pipeline | None = None
) -> Run:
    """Measure one thread against two, and write the run as a shipped example."""
    plan = SweepPlan(
        workload=workload,
        targets=(Target.parse("cpu,threads=1"), Target.parse("cpu,threads=2")),
        batches=parse_batches(batches),
        budget_s=budget_s,
        pipeline=pipeline or Pipeline(),
    )
    run = sweep(plan)
    return ship(run, name, file, f"{file.removesuffix('.json').replace('_', '-')}-{run.created_at[:10]}")


def ship(run: Run, name: str, file: str, run_id: str) -> Run:
    """Write a sweep as a shipped example, without what distinguishes its machine from others of its kind."""
    assert run.environment is not None
    changes = {"id": run_id, "name": name, "environment": private_environment(run.environment)}
    run = recorded(run).model_copy(update=changes)
    (DATA / file).write_text(run.to_json() + "\n", encoding="utf-8")
    print(analyse(run).verdict.sentence, flush=True)
    return run


def example_fleet(budget_s: float) -> FleetStudy:
    """Measure on this machine what the CPU of the example with a GPU was measured with, and put both together."""
    there = only(sweep_example("gpu"), (0,))
    assert there.plan is not None
    here = sweep(there.plan.model_copy(update={"budget_s": budget_s}))
    machines = {f"{cores_of(run)} cores": run for run in (here, there)}
    found = [
        Found(Path(f"{name}.json"), run.model_copy(update={"id": f"example-fleet-{place}"}), name)
        for place, (name, run) in enumerate(machines.items())
    ]
    study = collect(found)
    runs = tuple(run.model_copy(update={"environment": _private(run)}) for run in study.runs)
    return study.model_copy(update={"runs": runs})


def cores_of(run: Run) -> int | None:
    return None if run.environment is None else run.environment.usable_cores


def _private(run: Run) -> Environment | None:
    return None if run.environment is None else private_environment(run.environment)


def frontier_plan(budget_s: float) -> FrontierPlan:
    return FrontierPlan(
        depths=(1, 2, 4, 8),
        widths=(32, 64, 128, 256, 512, 1024),
        batches=(1, 4, 16, 64, 256, 1024),
        targets=(Target.parse("cpu,threads=1,execution=xla"), Target.parse("cpu,threads=2")),
        point=Setting(2, 256, 16),
        budget_s=budget_s,
    )


def memory_plan(run: Run) -> MemoryPlan:
    """Return the plan for the example's second target, under a limit that its machine could give one of two workers."""
    target = Target.parse(run.target_names[1])
    return MemoryPlan(workload=WORKLOAD, target=target, limit_bytes=MEMORY_BYTES, budget_s=MEMORY_S, run_id=run.id)


if __name__ == "__main__":
    main()
