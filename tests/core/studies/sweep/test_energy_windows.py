"""Energy windows of a sweep on a machine of known power: their timing, their content, and reasons for having none."""

import threading
from typing import Any

import pytest

from core.base.evidence import ClockReason
from core.rounds.answer.energy import energy_of
from core.rounds.plan import ENERGY_SHARE, MOST_ENERGY_S
from core.rounds.run import EnergyWindow, Run
from core.studies.runner import Asking, Cancelled, StudyFailed
from core.studies.sweep import closing as windows
from core.studies.sweep.supervisor import run_sweep
from core.worker.protocol import CellFailed, RunBlock, WorkerError, WorkerLost
from core.workload.spec import Target
from simulated.simulation import Curve
from simulated.sweeps import MemoryRecorder, plan, sweep
from simulated.tools import tools_for
from tests.support.meters import PoweredMachine, SimulatedMeter

pytestmark = pytest.mark.statistical

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
ALONE = (Target(threads=1), Target(threads=2))


def measured(machine: PoweredMachine | None = None, meter: Any = None, **about: Any) -> Run:
    machine = machine or PoweredMachine(CROSSING)
    options = {name: about.pop(name) for name in ("cancel", "report", "recorder") if name in about}
    asked = plan().model_copy(update={"budget_s": 240.0} | about)
    return sweep(machine, asked, meter=meter or SimulatedMeter(machine), **options)


def taken(run: Run) -> list[EnergyWindow]:
    return [window for window in run.energy if not window.skipped]


def test_windows_last_two_seconds_and_come_in_threes_first_of_the_idle_machine() -> None:
    recorder = MemoryRecorder()
    machine = PoweredMachine(CROSSING)
    run = measured(machine, recorder=recorder)
    assert [r for r in recorder.others if isinstance(r, EnergyWindow)][:6] == [
        w for index in range(3) for w in taken(run) if w.batch is None and w.index == index
    ]
    assert all(window.length_s >= 2.0 for window in taken(run))
    cells: dict[tuple[int, int | None], list[int]] = {}
    for window in taken(run):
        cells.setdefault((window.target, window.batch), []).append(window.index)
    assert set(map(tuple, cells.values())) == {(0, 1, 2)}
    assert {batch for _, batch in cells} >= {None, 1, 1024}
    assert machine.ran[0][0] >= machine.startup_s + 3 * windows.WINDOW_S, "idle comes before the first step"
    for window in taken(run):
        if window.batch is not None:
            step_ms = CROSSING[window.target].step_ms(window.batch)
            assert window.steps * step_ms / 1000 == pytest.approx(window.length_s, rel=0.02)
            alone_s = sum(
                end - begin for begin, end, *cell in machine.ran[-400:] if cell == [window.target, window.batch]
            )
            assert alone_s >= windows.RUN_UP_S + 3 * windows.WINDOW_S, "there is a run-up"
        assert (window.card is not None) == (window.target == 1)
        assert window.package_j is not None, "also while the GPU runs"


def test_known_joules_are_recovered_gross_and_net_and_what_fed_the_gpu() -> None:
    machine = PoweredMachine(CROSSING, cpu_w=lambda _: 65.0, gpu_w=lambda b: 40.0 + 0.1 * b, idle_w=(15.0, 25.0))
    found = energy_of(measured(machine))
    assert {target: level.value for target, level in found.idle_w.items()} == pytest.approx({0: 15.0, 1: 25.0})
    assert len(found.cells) >= 6
    for cell in found.cells:
        seconds = CROSSING[cell.target].step_ms(cell.batch) / 1000 / cell.batch
        watts, idle = (65.0, 15.0) if cell.target == 0 else (40.0 + 0.1 * cell.batch, 25.0)
        # the blocks' round trips of 1 ms in 0.5 s, and up to 50 ms at each end of a window for the GPU's counter
        assert cell.gross.value == pytest.approx(watts * seconds, rel=0.03)
        assert cell.net is not None
        assert cell.net.value == pytest.approx((watts - idle) * seconds, rel=0.05, abs=0.03 * watts * seconds)
        assert cell.source == ("package" if cell.target == 0 else "counter")
        if cell.target == 1:
            assert cell.fed is not None
            assert cell.fed.value == pytest.approx(35.0 * seconds, rel=0.03)
            assert cell.whole == cell.gross.value + cell.fed.value
        else:
            assert cell.fed is None


@pytest.mark.parametrize("tick_s", [None, 0.02, 0.25])
def test_however_the_card_counts(tick_s: float | None) -> None:
    machine = PoweredMachine(CROSSING, gpu_w=lambda _: 180.0)
    found = energy_of(measured(machine, SimulatedMeter(machine, tick_s)))
    watts = {cell.batch: cell.watts.value for cell in found.of(1)}
    assert watts == pytest.approx(dict.fromkeys(watts, 180.0), rel=0.04)
    assert {cell.source for cell in found.of(1)} == {"power" if tick_s is None else "counter"}


def test_windows_are_taken_where_the_lead_in_energy_changes() -> None:
    """Make the GPU faster from batch 50 on; at 350 W against 60 W it needs less energy only from about 300 on."""
    machine = PoweredMachine(CROSSING, gpu_w=lambda _: 350.0)
    found = energy_of(measured(machine, budget_s=3000.0))
    crossover = found.crossover
    truth = next(b for b in range(1, 1025) if 350 * CROSSING[1].step_ms(b) < 60 * CROSSING[0].step_ms(b))
    assert (crossover.pattern, crossover.less) == ("crossover", 1)
    assert crossover.below is not None
    assert crossover.above is not None
    assert crossover.below < truth <= crossover.above
    assert crossover.above / crossover.below <= 2.01, "down to neighbours among the measured batches"


def test_budgets_are_kept_and_one_that_is_too_short_says_how_long_is_enough() -> None:
    for budget_s in (84.0, 90.0, 150.0, 400.0):
        machine = PoweredMachine(CROSSING)
        run = measured(machine, budget_s=budget_s)
        assert machine.clock.now_s() <= budget_s + 1.0
        batches = {window.batch for window in taken(run) if window.batch is not None}
        share_s = min(MOST_ENERGY_S, ENERGY_SHARE * budget_s)
        assert batches, "the share is enough for one"
        assert len(batches) <= 3 or 2 * windows.CELL_S * len(batches) + windows.IDLE_S <= share_s
        assert run.traces
    machine = PoweredMachine(CROSSING)
    run = measured(machine, budget_s=60.0)
    assert ["84 s" in str(window.skipped) for window in run.energy] == [True, True]
    assert taken(run) == [], "and nothing was spent on it"


def test_a_cpu_that_cannot_be_read_leaves_the_gpu_alone_and_says_why() -> None:
    machine = PoweredMachine(CROSSING)
    run = measured(machine, SimulatedMeter(machine, refusals={"cpu": "Only root may read it."}), budget_s=60.0)
    found = energy_of(run)
    assert {window.target for window in taken(run)} == {1}
    assert {cell.target for cell in found.cells} == {1}
    (skipped,) = found.skipped
    assert "Only root" in skipped
    assert (found.crossover.pattern, found.cells[0].fed) == ("unknown", None)


@pytest.mark.parametrize("targets", [None, ALONE])
def test_without_a_gpu_that_can_be_read_there_are_none(targets: tuple[Target, Target] | None) -> None:
    machine = PoweredMachine(CROSSING)
    meter = SimulatedMeter(machine, refusals={"gpu:0": "It is a MIG slice."})
    run = measured(machine, meter, **({"targets": targets} if targets else {}))
    assert taken(run) == []
    assert {"MIG slice" in w.skipped for w in run.energy} == (set() if targets else {True})
    assert bool(meter.begun) == (targets is None), "nothing is watched where no GPU is measured"


def test_two_targets_of_one_gpu_share_what_it_takes_idle() -> None:
    machine = PoweredMachine(CROSSING)
    both = (Target(device="gpu:0"), Target(device="gpu:0", precision="mixed_float16"))
    run = measured(machine, targets=both)
    idle = [w for w in taken(run) if w.batch is None]
    assert [(w.target, w.index) for w in idle] == [(t, i) for t in (0, 1) for i in range(3)]
    assert idle[0].card == idle[3].card


def test_rounds_hold_what_the_card_did_in_their_gpu_blocks_and_slowdowns_are_seen() -> None:
    def throttled(*reasons: ClockReason) -> set[bool]:
        """Return the states seen, in the rounds with a sample: one per batch and second at most."""
        machine = PoweredMachine(CROSSING)
        run = measured(machine, SimulatedMeter(machine, reasons=reasons), budget_s=60.0)
        for block in (block for item in run.rounds for block in item.blocks):
            assert block.card is None or block.target == 1
            assert block.card is None or block.card.energy_j is None, "a block is too short"
        seen = [item.interference.throttled for item in run.rounds if item.interference.throttled is not None]
        assert len(seen) >= len({item.batch for item in run.rounds})
        return set(seen)

    assert throttled("sw_thermal") == {True}
    assert throttled("power_cap") == {False}, "normal under load"
    assert {r.interference.throttled for r in sweep(PoweredMachine(CROSSING), plan()).rounds} == {None}


class BadBlocks(PoweredMachine):
    """Machine on which blocks of the second target as long as a window's end in ``error``."""

    error: WorkerError = CellFailed("error", "The GPU went away.")

    def launch(self, targets: Any, deadline_s: float, *_: object) -> Any:
        workers = super().launch(targets, deadline_s)
        run = workers[1].block

        def block(request: RunBlock, deadline_s: float) -> Any:
            if request.steps * CROSSING[1].step_ms(request.batch) > 400.0:
                raise self.error
            return run(request, deadline_s)

        workers[1].block = block
        return workers


@pytest.mark.parametrize("kind", [CellFailed, WorkerLost])
def test_a_failure_in_a_window_is_said_and_costs_no_round(kind: type[WorkerError]) -> None:
    machine = BadBlocks(CROSSING)
    machine.error = kind("crashed" if kind is WorkerLost else "error", "The GPU went away.")
    meter = SimulatedMeter(machine)
    run = measured(machine, meter)
    assert run.status == "finished"
    assert {c.outcome for c in run.cells} == {"measured"}
    assert any(w.skipped.endswith("GPU went away.") for w in run.energy)
    meter.begin("gpu:0")  # no block is left open


def test_cancelling_during_windows_keeps_those_so_far() -> None:
    cancel = threading.Event()

    def stop(progress: Any) -> None:
        if progress.activity.startswith("Measuring the energy"):
            cancel.set()

    run = measured(cancel=cancel, report=stop)
    assert run.status == "cancelled"
    assert {w.batch for w in taken(run)} == {None}
    assert run.rounds


def test_cancelling_while_the_idle_machine_is_watched_ends_at_once() -> None:
    machine, cancel = PoweredMachine(CROSSING), threading.Event()
    meter = SimulatedMeter(machine)
    pause = meter.pause

    def stopping(seconds: float) -> None:
        pause(seconds)
        cancel.set()

    meter.pause = stopping  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        measured(machine, meter, cancel=cancel)
    assert machine.clock.now_s() < machine.startup_s + 1.0
    meter.begin("gpu:0")


def test_a_resumed_sweep_measures_its_windows_anew() -> None:
    machine = PoweredMachine(CROSSING)
    first = measured(machine, budget_s=90.0).model_copy(update={"status": "interrupted"})
    again = PoweredMachine(CROSSING, gpu_w=lambda _: 200.0)
    whole = first.model_copy(update={"plan": first.plan and first.plan.model_copy(update={"budget_s": 400.0})})
    run = run_sweep(tools_for(again, meter=SimulatedMeter(again)), whole)
    keys = [(w.target, w.batch, w.index) for w in run.energy]
    assert len(keys) == len(set(keys))
    processes: dict[tuple[int, int | None], set[int]] = {}
    for window in run.energy:
        processes.setdefault((window.target, window.batch), set()).add(window.process)
    assert all(len(found) == 1 for found in processes.values()), "a cell's windows are of one process"
    (smallest, *_) = energy_of(run).of(1)
    assert smallest.watts.value == pytest.approx(200.0, rel=0.03), "the new machine's"


def test_a_block_inside_a_watched_one_is_part_of_it() -> None:
    machine = PoweredMachine(CROSSING)
    meter = SimulatedMeter(machine)
    asking = Asking(tools_for(machine, meter=meter), 60.0)
    workers = asking.start((Target(), Target(device="gpu:0")))
    with asking.watched(workers[1]), asking.watched(workers[1]):
        machine.clock.advance(0.5)
    assert meter.begun == ["gpu:0"]
    assert asking.card is not None
    assert asking.card.samples == 10
    with asking.watched(workers[0]):
        machine.clock.advance(0.5)
    assert (meter.begun, asking.card) == (["gpu:0"], None)
    with pytest.raises(StudyFailed), asking.watched(workers[1]):
        raise StudyFailed("Gone.")
    meter.begin("gpu:0")
    for worker in workers:
        worker.close()


@pytest.mark.parametrize(
    ("leads", "batch"),
    [
        ({}, 64),
        ({64: 0}, 1),
        ({64: 0, 1: 0}, 1024),
        ({1: 0, 64: 0, 1024: 1}, 256),
        ({1: 0, 64: 0, 256: 0, 1024: 1}, 512),
        ({1: 0, 64: 0, 256: 0, 512: 1, 1024: 1}, 8),  # the bracket is as narrow as the batches
        ({1: None, 64: None, 1024: None}, 8),
        ({1: None, 64: None, 8: None, 1024: None}, 256),
        (dict.fromkeys((1, 2, 4, 8, 16, 32, 64, 1024), None), None),
    ],
)
def test_which_batch_is_next(leads: dict[int, int | None], batch: int | None) -> None:
    measured = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert windows.next_batch(measured, (64, 1, 1024), leads) == batch


def test_with_few_batches_there_is_an_end() -> None:
    assert windows.next_batch((1, 8), (1, 8), {1: 0, 8: 1}) is None
    assert windows.next_batch((), (), {}) is None
