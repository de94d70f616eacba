"""Timing pitfalls: one workload timed in the ways of many articles, beside our block time, in a worker of its own."""

from __future__ import annotations

import statistics
from typing import Literal, NamedTuple, get_args

from core.base.schema import Frozen
from core.networks.families import network_from_name
from core.studies.kind import Task
from core.studies.runner import StudyTools
from core.worker.clock import Clock
from core.worker.protocol import Prepare, R, Release, Request, RunBlock, TimePitfall, Way, Worker
from core.workload.spec import Mode, Pipeline, Target, Workload

WORKLOAD, DEADLINE_S = "784-128-10", 150.0  # it takes some 30 s
OUR_BLOCKS = 25
Method = Literal["predict_first", "predict_loop", "single_call", "first_epoch"]


class Words(NamedTuple):
    """A method's name, why it misleads, and the mode of our figure beside it."""

    title: str
    explanation: str
    beside: Mode


METHODS: dict[Method, Words] = {
    "predict_first": Words(
        "model.predict in a loop, first call included",
        "The first call traces and compiles the network, and its time is spread over all steps.",
        "infer",
    ),
    "predict_loop": Words(
        "model.predict in a loop, without the first call",
        "Each call of predict sets up a data pipeline and callbacks, and copies the result to the host.",
        "infer",
    ),
    "single_call": Words(
        "one call of the compiled step, nothing warmed up, no synchronisation",
        "A single first call is mostly tracing and compiling; a GPU also answers before it is done.",
        "infer",
    ),
    "first_epoch": Words(
        "time.time around the first epoch of model.fit",
        "The first epoch holds the compilation and the set-up of fit beside its steps.",
        "train",
    ),
}


class Figure(Frozen):
    """Measured step time by one method, and its ratio to our figure."""

    method: Method
    step_ms: float
    ratio: float

    @property
    def title(self) -> str:
        return METHODS[self.method].title

    @property
    def explanation(self) -> str:
        return METHODS[self.method].explanation


class PitfallReport(Frozen):
    """Pitfalls measured live.

    Our figures are ``infer_step_ms`` beside the predict methods, ``train_step_ms`` beside fit.
    """

    workload: str
    batch: int
    infer_step_ms: float
    train_step_ms: float
    figures: tuple[Figure, ...]


def run_pitfalls(tools: StudyTools, batch: int, workload: Workload | None = None) -> PitfallReport:
    """Time a workload (default: :data:`WORKLOAD`) at ``batch`` on the CPU by every method.

    Raises WorkerError (crashed, hung, out of memory), or Cancelled while the worker starts.
    """
    end_s = tools.clock.now_s() + DEADLINE_S
    (worker,) = tools.launcher((Target(),), DEADLINE_S, tools.check)
    try:
        return _measure(worker, workload or Workload(network=network_from_name(WORKLOAD)), batch, end_s, tools.clock)
    finally:
        worker.close()


def _measure(worker: Worker, workload: Workload, batch: int, end_s: float, clock: Clock) -> PitfallReport:
    modes = {mode: workload.model_copy(update={"mode": mode}) for mode in get_args(Mode)}
    steps_ms: dict[str, float] = {}

    def ask(request: Request[R]) -> R:
        return worker.ask(request, end_s - clock.now_s())

    def ours_ms(workload: Workload) -> float:
        """Return the median step time of a few blocks, on a host array as the other methods use."""
        prepared = ask(Prepare(workload=workload, pipeline=Pipeline(kind="host"), batch=batch))
        block = RunBlock(batch=batch, steps=prepared.steps_per_block)
        blocks_ms = [ask(block).block_ms for _ in range(OUR_BLOCKS)]
        ask(Release(batch=batch))
        return statistics.median(blocks_ms) / block.steps

    for way in get_args(Way):
        mode = "train" if way == "first_epoch" else "infer"
        steps_ms |= ask(TimePitfall(workload=modes[mode], batch=batch, way=way)).steps_ms
    ours = {mode: ours_ms(modes[mode]) for mode in modes}
    return PitfallReport(
        workload=workload.network.name,
        batch=batch,
        infer_step_ms=ours["infer"],
        train_step_ms=ours["train"],
        figures=tuple(
            Figure(method=method, step_ms=steps_ms[method], ratio=steps_ms[method] / ours[words.beside])
            for method, words in METHODS.items()
        ),
    )


PITFALLS: Task[int, PitfallReport] = Task(
    name="pitfalls", describe=lambda batch: f"{WORKLOAD} at batch {batch}, timed in several ways", run=run_pitfalls
)
"""Its plan is the batch."""
