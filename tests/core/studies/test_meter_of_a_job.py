"""Cards are sampled throughout a measurement with a GPU, however it ends."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.machine.meter import Meter
from core.studies.jobs import Jobs
from core.studies.sweep.kind import SWEEP, new_run
from core.workload.spec import Target
from simulated.fake_nvml import FakeCard, FakeNvml
from simulated.simulation import Curve, Fault, Machine
from simulated.sweeps import MemoryRecorder, plan


class RealTimeMachine(Machine):
    """Machine whose blocks take a moment for NVML's thread, too; ``seen`` are the threads that sampled meanwhile."""

    def launch(self, targets: Any, deadline_s: float, *_: object) -> Any:
        workers = super().launch(targets, deadline_s)
        for worker in workers:
            worker.block = self._slowly(worker.block)
        return workers

    def _slowly(self, block: Any) -> Any:
        def slowly(request: Any, deadline_s: float) -> Any:
            self.on_block()
            threading.Event().wait(0.015)
            return block(request, deadline_s)

        return slowly

    def on_block(self) -> None:
        self.seen = getattr(self, "seen", set()) | set(sampling())


class VirtualMeter(Meter):
    """Meter that waits on the machine's clock."""

    def __init__(self, machine: Machine, root: Path) -> None:
        super().__init__(root)
        self._machine = machine

    def pause(self, seconds: float) -> None:
        self._machine.clock.advance(seconds)


def sampling() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "breakeven-cards"]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    nvml = FakeNvml([FakeCard(utilisation_pct=30, reasons=4)])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("core.studies.jobs.refuse_unusable", lambda _: ())  # TensorFlow's CUDA packages may be missing
    return nvml


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Callable[..., tuple[RealTimeMachine, Any]]]:
    """Yield a function that runs a short sweep on a machine with faults and returns its end."""
    open_jobs: list[Jobs] = []

    def measure(*faults: Fault, cancel: bool = False, **changes: Any) -> tuple[RealTimeMachine, Any]:
        machine = RealTimeMachine((Curve(0.3, 0.02), Curve(1.0, 0.003)), faults=faults)
        jobs = Jobs(
            MemoryRecorder(), launcher=machine.launch, clock=machine.clock, interference=lambda: None,  # type: ignore[arg-type]
            meter=lambda: VirtualMeter(machine, tmp_path),
        )  # fmt: skip
        open_jobs.append(jobs)
        if cancel:
            seen = machine.on_block
            machine.on_block = lambda: (seen(), jobs.cancel() if machine.seen else None)  # type: ignore[assignment, method-assign]
        jobs.start(SWEEP, new_run(plan("1:8").model_copy(update={"budget_s": 8.0} | changes), "x"))
        jobs.wait(60)
        snapshot = jobs.snapshot()
        assert snapshot is not None
        assert not snapshot.active
        return machine, snapshot

    yield measure
    for jobs in open_jobs:
        jobs.close()


def test_the_thread_ends_with_the_sweep(nvml: FakeNvml, measured: Any) -> None:
    machine, ended = measured()
    assert (ended.record.status, ended.error) == ("finished", None)
    assert machine.seen == {"breakeven-cards"}
    uses = [block.card for item in ended.record.rounds for block in item.blocks if block.card is not None]
    assert uses
    assert {use.util_pct for use in uses} == {30.0}
    assert {reason for use in uses for reason in use.reasons} == {"power_cap"}
    assert (sampling(), nvml.open) == ([], 0)


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_it_ends_with_a_sweep_that_was_cancelled_or_failed(nvml: FakeNvml, measured: Any, how: str) -> None:
    if how == "cancelled":
        machine, ended = measured(cancel=True)
        assert ended.record.status == "cancelled"
        assert machine.seen == {"breakeven-cards"}
    else:
        _, ended = measured(*(Fault(t, 1, "crashed", in_block=True, lost=True) for t in (0, 1)))
        assert ended.error is not None
    assert (sampling(), nvml.open) == ([], 0)


def test_nothing_starts_where_no_gpu_is_measured(nvml: FakeNvml, measured: Any) -> None:
    machine, ended = measured(targets=(Target(threads=1), Target(threads=2)))
    assert ended.record.status == "finished"
    assert machine.seen == set()
    assert "nvmlDeviceGetPowerUsage" not in nvml.asked, "the environment alone was read"
    assert ended.record.energy == ()


@pytest.mark.usefixtures("nvml")
def test_no_timed_block_is_sampled(monkeypatch: pytest.MonkeyPatch, measured: Any) -> None:
    under_way: list[bool] = []
    sampled_blocks: list[int] = []
    begin, end, block = Meter.begin, Meter.end, RealTimeMachine.on_block

    def on_block(machine: RealTimeMachine) -> None:
        block(machine)
        sampled_blocks.append(len(under_way))

    monkeypatch.setattr(Meter, "begin", lambda meter, device: (under_way.append(True), begin(meter, device))[1])
    monkeypatch.setattr(Meter, "end", lambda meter: (under_way.clear(), end(meter))[1])
    monkeypatch.setattr(RealTimeMachine, "on_block", on_block)
    _, ended = measured()
    timed = sum(len(item.blocks) for item in ended.record.rounds)
    kept = [block for item in ended.record.rounds for block in item.blocks if block.card is not None]
    assert sampled_blocks.count(0) == timed, "the blocks that are kept"
    assert len(kept) == sampled_blocks.count(1) > 0, "and beside each that has a sample an untimed one"
    visited = {(item.pass_index, item.batch) for item in ended.record.rounds}
    assert len(kept) >= len(visited)
