"""Common behaviour of every framework's engine, with a framework that sleeps: no Keras, no device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from core.base.evidence import OutputDifference
from core.base.frameworks import Compiled
from core.worker import cells
from core.worker.cells import CellEngine, Engine, Placement
from core.worker.feeds import Feed, kept
from core.worker.memory import PeakMeter
from core.worker.protocol import (
    AnyRequest,
    CellFailed,
    Hello,
    OpenTraining,
    Prepare,
    Release,
    RunBlock,
    TimeLoop,
    TraceSteps,
    WorkerLost,
)
from core.worker.step import Step, check_loss
from core.workload.spec import Pipeline, Target, Workload

NETWORK = Workload(network="20-16-4")
LOSSES = itertools.repeat(1.0)


class Bare(Step):
    """Steps that return given losses, and count the waits."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.call = lambda: next(self.iterator)
        self.waits = 0

    def wait(self, last: Any) -> None:  # noqa: ARG002
        self.waits += 1

    def check_finite(self) -> None:
        check_loss(self.last)


class Small(CellEngine[Bare]):
    """Engine of a framework with nothing but a step."""

    losses: Iterator[float] = LOSSES
    difference: OutputDifference | None = None
    built = 0

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:  # noqa: ARG002
        return kept(self.losses)

    def build_model(self, workload: Workload, target: Target) -> Any:  # noqa: ARG002
        self.built += 1
        return object()

    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> Bare:  # noqa: ARG002
        step = Bare(feed)
        step.output_difference = self.difference
        return step

    def first_call(self, step: Bare) -> tuple[float, Placement]:
        return step.run(1), Placement(("CPU",))

    def compiled_as(self, step: Bare, target: Target) -> tuple[Compiled, str]:  # noqa: ARG002
        return "xla", "as asked"


def engine(**more: Any) -> Small:
    return Small(Hello(target=Target(framework="jax"), **more))


def cell(batch: int, slot: int = 0) -> Prepare:
    return Prepare(workload=NETWORK, pipeline=Pipeline(), batch=batch, slot=slot, warmup_ms=5, block_ms=1)


def test_there_is_a_method_for_every_kind_of_request() -> None:
    kinds = {kind.model_fields["kind"].default for kind in get_args(AnyRequest)} - {"hello"}
    assert {name for name in vars(Engine) if not name.startswith("_")} == kinds
    assert all(callable(getattr(engine(), kind)) for kind in kinds)


def test_a_block_waits_once_and_cells_share_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    monkeypatch.setattr(made.turns, "wake", lambda *_: None)
    for slot in (0, 1):
        assert made.prepare(cell(4, slot)).execution == "xla"
    assert made.built == 1
    step = made.cell(4, 0).step
    step.waits = 0
    assert made.block(RunBlock(batch=4, steps=100)).steps == 100
    assert step.waits == 1
    for slot in (0, 1):
        made.release(Release(batch=4, slot=slot))
    made.prepare(cell(4))
    assert made.built == 2


def test_pages_of_files_count_only_where_resident_memory_is_put_to_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "held_bytes", lambda _: 700_000_000)
    monkeypatch.setattr(cells, "taken_bytes", lambda: 300_000_000)
    engine(memory_limit_bytes=600_000_000).prepare(cell(4))
    with pytest.raises(CellFailed, match="batch 4 needs"):
        engine(memory_limit_bytes=600_000_000, watch_memory=True).prepare(cell(4))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (TraceSteps(batch=4, steps=2), "Where a step's time goes is measured with TensorFlow only, not with JAX."),
        (TimeLoop(batch=4, limit_ms=1.0), "JAX has no loop of its own around a step."),
        (
            OpenTraining(workload=NETWORK, batch=4, learning_rate=0.1),
            "Gradient noise is measured with TensorFlow only, not with JAX.",
        ),
    ],
)
def test_what_is_not_served_is_said_in_one_sentence(request_: Any, said: str) -> None:
    made = engine()
    made.prepare(cell(4))
    with pytest.raises(CellFailed, match=f"^{said}$"):
        getattr(made, request_.kind)(request_)


def test_a_loss_that_is_not_a_number_fails_the_cell_and_leaves_nothing() -> None:
    made = engine()
    made.losses = itertools.repeat(float("nan"))
    with pytest.raises(CellFailed, match="loss became nan") as caught:
        made.prepare(cell(4))
    assert caught.value.outcome == "nan_loss"
    with pytest.raises(CellFailed, match="Batch 4 was"):
        made.block(RunBlock(batch=4, steps=1))


@pytest.mark.parametrize(
    ("error", "kind", "outcome"),
    [
        (MemoryError("too much"), CellFailed, "out_of_memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory while trying to allocate"), CellFailed, "out_of_memory"),
        (RuntimeError("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS"), WorkerLost, "crashed"),
        (ValueError("no such layer"), CellFailed, "error"),
    ],
)
def test_what_a_framework_raises_becomes_an_outcome(error: Exception, kind: type, outcome: str) -> None:
    with pytest.raises(kind) as caught, engine().outcomes(Pipeline()):
        raise error
    assert type(caught.value) is kind
    assert caught.value.outcome == outcome
    assert outcome != "error" or "JAX could not" in caught.value.reason


class NeverFalls:
    """Allocator whose peak cannot be reset."""

    def __init__(self) -> None:
        self.most = 1_000

    def held(self) -> int:
        return 500

    def peak(self) -> int:
        return self.most

    def reset(self) -> bool:
        return False


def test_a_peak_that_was_there_before_is_not_this_cells() -> None:
    allocator = NeverFalls()
    meter = PeakMeter(allocator)
    meter.first_call_done()
    assert (meter.peak_bytes(), meter.steady_bytes()) == (None, None)
    allocator.most = 3_000
    assert (meter.peak_bytes(), meter.steady_bytes()) == (3_000, None)


def test_a_block_says_how_much_cpu_time_it_took_and_a_step_in_int8_how_far_it_is_from_float32() -> None:
    made = engine()
    assert made.prepare(cell(4)).output_difference is None
    assert made.block(RunBlock(batch=4, steps=100)).cpu_ms >= 0
    differs = OutputDifference(samples=8, largest=0.1, mean=0.01, agreeing=1.0, quantised="all")
    made.difference = differs
    assert made.prepare(cell(8)).output_difference == differs


class Timed(Bare):
    """Step of half a millisecond by its own clock."""

    def run(self, steps: int) -> float:
        self.last = 1.0
        return 0.5 * steps


@pytest.mark.parametrize(
    ("device", "asked_ms", "block_ms"), [("cpu", None, 4.0), ("gpu:0", None, 20.0), ("cpu", 20.0, 20.0)]
)
def test_a_block_is_as_long_as_suits_the_device_unless_the_request_says(
    monkeypatch: pytest.MonkeyPatch, device: str, asked_ms: float | None, block_ms: float
) -> None:
    monkeypatch.setattr(Small, "make_step", lambda _, model, workload, target, feed: Timed(feed))  # noqa: ARG005
    made = Small(Hello(target=Target(device=device, framework="jax")))
    steps = made.prepare(cell(4).model_copy(update={"block_ms": asked_ms})).steps_per_block
    assert 0.5 * steps == pytest.approx(1.1 * block_ms, abs=0.5)
