"""A GPU target's block after a pause, with a device that idles as given: the steps are a CPU's here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core.worker.cells import Turns
from core.worker.protocol import Hello, Prepare, RunBlock
from core.worker.timing import CORES_AWAKE_MS
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

REQUEST = Prepare(workload=Workload(network="20-16-4"), pipeline=Pipeline(), batch=4, warmup_ms=50, block_ms=2)
BLOCK = RunBlock(batch=4, steps=8)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the seconds by which the clock, which measures a device's idle time, jumps ahead."""
    from core.worker import cells as worker

    ahead = SimpleNamespace(s=0.0)
    real = worker.time.monotonic
    clock = SimpleNamespace(**vars(worker.time) | {"monotonic": lambda: real() + ahead.s})
    monkeypatch.setattr(worker, "time", clock)
    return ahead


def engine(monkeypatch: pytest.MonkeyPatch, target: Target) -> object:
    """Return an engine whose target is reported as a GPU, and that runs on the CPU."""
    from core.worker.tensorflow import engine as worker
    from core.worker.tensorflow.devices import Devices

    made = worker.TensorFlowEngine(Hello(target=Target()), Devices(("CPU:0",)))
    made.prepare(REQUEST)
    monkeypatch.setattr(made, "turns", Turns(target))
    return made


def test_a_gpu_that_idled_runs_untimed_steps_first_and_records_them(
    monkeypatch: pytest.MonkeyPatch, idle: SimpleNamespace
) -> None:
    gpu = engine(monkeypatch, Target(device="gpu:0"))
    gpu.block(BLOCK)  # type: ignore[attr-defined]
    assert gpu.block(BLOCK).wake_ms == 0.0  # type: ignore[attr-defined]
    idle.s += 0.5
    woken = gpu.block(BLOCK)  # type: ignore[attr-defined]
    assert woken.wake_ms >= 100.0
    assert woken.steps == 8
    assert gpu.block(BLOCK).wake_ms == 0.0  # type: ignore[attr-defined]


def test_the_call_before_a_cpus_block_is_no_wake(monkeypatch: pytest.MonkeyPatch, idle: SimpleNamespace) -> None:
    cpu = engine(monkeypatch, Target())
    idle.s += 60.0
    assert cpu.block(BLOCK).wake_ms is None  # type: ignore[attr-defined]


def test_a_cpu_that_is_asked_to_wakes_its_cores_before_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = engine(monkeypatch, Target())
    woken = cpu.block(BLOCK.model_copy(update={"wake_cores": True}))  # type: ignore[attr-defined]
    assert woken.wake_ms >= CORES_AWAKE_MS
    assert woken.steps == BLOCK.steps
