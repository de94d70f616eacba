"""A schedule that buys replicates: how often each batch is prepared anew, on a virtual clock."""

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

from core.base.evidence import Interference
from core.rounds.answer.more_time import extended
from core.rounds.run import Run
from core.studies.progress import Progress
from core.studies.sweep import schedule
from core.studies.sweep.choice import Choice
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.rotation import Rotation
from core.studies.sweep.supervisor import run_sweep
from core.studies.sweep.timetable import Timetable
from core.studies.sweep.workers import Workers
from simulated.simulation import Curve, Fault, Machine, NoiseModel, random_ladder
from simulated.sweeps import MemoryRecorder, new_run, plan, sweep
from simulated.tools import tools_for

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
EQUAL = (Curve(0.5, 0.01), Curve(0.5, 0.01))


def fork(count: int = 2, seed: int = 1, **options: Any) -> Machine:
    """Return a machine whose workers are forked."""
    curves = random_ladder(np.random.default_rng(2), count) if count > 2 else CROSSING[:count]
    return Machine(curves, NoiseModel(), seed=seed, startup_s=0.1, prepare_s=0.3, **options)


def gpu(seed: int = 1) -> Machine:
    return Machine(CROSSING, NoiseModel(), seed=seed, startup_s=6.0, prepare_s=1.0)


def replicates(run: Run) -> dict[int, int]:
    """Count the starts that measured a batch on every target."""
    count = len(run.target_names)
    whole = {(item.batch, item.process) for item in run.rounds if len(item.blocks) == count}
    return {batch: sum(other == batch for other, _ in whole) for batch in run.batches}


# -- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget_s", [30.0, 45.0, 90.0])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_from_half_a_minute_on_every_batch_that_is_reported_has_three(count: int, budget_s: float) -> None:
    machine = fork(count)
    run = sweep(machine, plan(count=count, budget_s=budget_s))
    assert min(replicates(run).values()) >= 3
    assert len(run.batches) >= schedule.FEWEST_BATCHES
    assert {run.batches[0], run.batches[-1]} == {1, 1024}, "the ends are kept"
    assert machine.clock.now_s() <= budget_s + 5.0


def test_cheap_starts_are_many_and_those_that_decide_have_most() -> None:
    machine = fork()
    run = sweep(machine, plan(budget_s=45.0))
    assert 4 <= machine.starts <= 8
    most = [batch for batch, count in replicates(run).items() if count == max(replicates(run).values())]
    truth = machine.true_crossover(1, 1024)
    assert truth is not None
    assert all(0.25 < batch / truth < 4 for batch in most)


@pytest.mark.parametrize(("budget_s", "least", "batches"), [(60.0, 3, 4), (90.0, 3, 6), (180.0, 3, 11)])
def test_where_starts_are_dear_there_are_three_of_fewer_batches(budget_s: float, least: int, batches: int) -> None:
    machine = gpu()
    run = sweep(machine, plan(budget_s=budget_s))
    assert min(replicates(run).values()) >= least
    assert len(run.batches) >= batches
    assert machine.clock.now_s() <= budget_s + 5.0


@pytest.mark.parametrize("budget_s", [12.0, 20.0, 30.0])
def test_a_budget_too_short_for_three_has_as_many_as_fit(budget_s: float) -> None:
    machine = gpu()
    run = sweep(machine, plan(budget_s=budget_s))
    assert run.rounds
    assert machine.clock.now_s() <= budget_s + 5.0


def test_what_is_left_out_says_so() -> None:
    run = sweep(fork(), plan(budget_s=30.0))
    left = [cell for cell in run.cells if cell.batch not in run.batches]
    assert left
    reason = f"The budget allows three starts of {len(run.batches)} batch sizes only."
    assert {(cell.outcome, cell.stop_reason, cell.reason) for cell in left} == {("skipped", "budget", reason)}
    assert {cell.batch for cell in left} | set(run.batches) >= set(run.plan.batches)


def test_a_list_of_few_batches_is_always_whole() -> None:
    run = sweep(fork(), plan("3,17,48,200,900", budget_s=30.0, refine=False))
    assert run.batches == (3, 17, 48, 200, 900)
    assert min(replicates(run).values()) >= 3
    assert "skipped" not in {cell.outcome for cell in run.cells}


def test_equal_targets_have_their_replicates_everywhere() -> None:
    machine = Machine(EQUAL, NoiseModel(), seed=3, startup_s=0.1, prepare_s=0.3)
    run = sweep(machine, plan(budget_s=60.0))
    assert min(replicates(run).values()) >= 3
    rounds = Counter(item.batch for item in run.rounds)
    assert max(rounds.values()) < 6 * min(rounds.values())


def test_new_sizes_have_three_replicates_too() -> None:
    run = sweep(fork(), plan(budget_s=60.0))
    new = set(run.batches) - set(run.plan.batches)
    assert new
    assert min(replicates(run)[batch] for batch in new) >= 3


def test_a_lost_worker_costs_no_replicate() -> None:
    machine = fork(faults=(Fault(1, 64, "crashed", in_block=True, lost=True, times=1),))
    run = sweep(machine, plan(budget_s=60.0))
    assert min(replicates(run).values()) >= 3


def test_a_sweep_that_goes_on_adds_starts() -> None:
    machine = fork()
    run = sweep(machine, plan(budget_s=20.0))
    machine.clock.advance(100.0)
    longer = run_sweep(tools_for(machine), extended(run, 40.0, 0.05))
    assert longer.rounds[: len(run.rounds)] == run.rounds
    assert len(replicates(longer)) > len(replicates(run)), "what was left out joins"
    assert min(replicates(longer).values()) >= 3
    assert max(item.process for item in longer.rounds) >= max(item.process for item in run.rounds) + 3


def test_imports_at_the_first_two_starts_are_no_start_s_cost() -> None:
    """Check a command, whose first two starts make the templates of its workers."""
    machine = fork()
    launch = machine.launch

    def importing(*asked: Any) -> Any:
        if machine.starts < 2:
            machine.clock.advance(5.0)
        return launch(*asked)

    run = run_sweep(tools_for(machine, launch=importing), new_run(plan(budget_s=45.0)))
    assert min(replicates(run).values()) >= 3
    assert len(run.batches) >= 7
    assert machine.clock.now_s() <= 50.0


def test_where_no_second_start_fits_the_first_one_has_all_the_time() -> None:
    machine = fork()
    launch = machine.launch

    def importing(*asked: Any) -> Any:
        machine.clock.advance(14.0)
        return launch(*asked)

    run = run_sweep(tools_for(machine, launch=importing), new_run(plan(budget_s=25.0, trace=False)))
    assert machine.starts == 1
    assert max(block.at_s for item in run.rounds for block in item.blocks) > 22.0


# -- visits ------------------------------------------------------------------------------------------------------------


class Neighbour:
    """Other programs that take a core while ``busy`` is True at the virtual time; it counts the samples."""

    def __init__(self, machine: Machine, busy: Any) -> None:
        self.machine, self.busy, self.samples = machine, busy, 0

    def reset(self, *_: object) -> None: ...

    def sample(self, *_: object) -> Interference:
        self.samples += 1
        return _Sample(other_cpu_pct=100.0 if self.busy(self.machine.clock.now_s()) else 0.0)


class _Sample(Interference):
    @property
    def disturbed(self) -> bool | None:
        return bool(self.other_cpu_pct)


def test_the_rounds_of_a_visit_share_a_sample() -> None:
    machine = fork()
    neighbour = Neighbour(machine, lambda now_s: now_s % 2 < 1)
    run = sweep(machine, plan(budget_s=30.0), interference=neighbour)
    samples: dict[tuple[int, int], set[int]] = {}
    for item in run.rounds:
        samples.setdefault((item.pass_index, item.batch), set()).add(id(item.interference))
    assert {len(of) for of in samples.values()} == {1}
    assert neighbour.samples < 2.5 * len(samples)


def test_a_disturbed_visit_comes_again_in_the_same_start() -> None:
    run, quiet = (
        sweep(
            machine,
            plan("1,8,64,512", budget_s=60.0, refine=False),
            interference=Neighbour(machine, lambda now_s, s=share: now_s % 5 < s),
        )
        for machine, share in ((fork(), 1.5), (fork(), 0.0))
    )
    whole = {(item.process, item.batch) for item in run.rounds}
    clean = {(item.process, item.batch) for item in run.rounds if not item.interference.disturbed}
    assert len(whole - clean) < 0.1 * len(whole)
    assert min(replicates(run).values()) >= 3
    assert min(replicates(quiet).values()) >= 3


def test_a_machine_that_is_always_disturbed_gets_its_replicates_all_the_same() -> None:
    machine = fork()
    run = sweep(machine, plan(budget_s=45.0), interference=Neighbour(machine, lambda _: True))
    assert min(replicates(run).values()) >= 3
    assert machine.clock.now_s() <= 50.0


def test_a_visit_that_is_cut_short_keeps_its_rounds() -> None:
    cancel = threading.Event()

    class StopsInAVisit(Machine):
        blocks = 0

        def fault(self, target: int, batch: int, in_block: bool) -> None:  # noqa: ARG002
            self.blocks += in_block
            if self.blocks == 4:
                cancel.set()

    recorder = MemoryRecorder()
    run = sweep(StopsInAVisit(CROSSING), plan(), recorder=recorder, cancel=cancel)
    assert run.status == "cancelled"
    assert len(run.rounds) == len(recorder.rounds) == 4, "those of the turn that was under way"
    assert {cell.outcome for cell in run.cells if cell.batch == 1} == {"measured"}


def test_pages_may_draw_between_visits() -> None:
    tools, pauses = tools_for(fork()), []
    object.__setattr__(tools, "pause", lambda: pauses.append(tools.clock.now_s()))
    run = run_sweep(tools, new_run(plan(budget_s=20.0)))
    visits = {(item.pass_index, item.batch) for item in run.rounds}
    assert len(visits) <= len(pauses) <= len(visits) + 5


# -- the order ---------------------------------------------------------------------------------------------------------


def rotated(disturbed: Any, seconds: float) -> list[int]:
    """Return the batches in the order of their visits of one second, in one start of 1, 2 and 3."""
    machine, seen = fork(), []

    def visit(batch: int, _: int, first: bool) -> bool:
        assert first == (batch not in seen)
        seen.append(batch)
        machine.clock.advance(1.0)
        return bool(disturbed(batch, len(seen)))

    rotation = Rotation(tools_for(machine), Ledger(new_run(plan()), MemoryRecorder()), visit)
    rotation.one_pass((1, 2, 3), 99.0)
    rotation.go_on(lambda: rotation.visited, seconds)
    return seen


def test_batches_are_visited_up_and_down() -> None:
    assert rotated(lambda *_: False, 9.0) == [1, 2, 3, 3, 2, 1, 1, 2, 3]


def test_what_was_disturbed_comes_first() -> None:
    assert rotated(lambda _, count: count == 2, 7.0) == [1, 2, 3, 2, 1, 2, 3]


def test_a_batch_that_is_always_disturbed_leaves_others_their_turn() -> None:
    counts = Counter(rotated(lambda batch, _: batch == 2, 40.0))
    assert counts[2] <= 2.2 * counts[1]
    assert counts[1] == pytest.approx(counts[3], abs=1)


def test_the_choice_of_a_start_is_what_the_time_holds() -> None:
    run = sweep(fork(), plan(budget_s=30.0))
    machine = fork()
    ledger = Ledger(run, MemoryRecorder())
    workers = Workers(run.plan, ledger, tools_for(machine), lambda: 1e9)
    choice = Choice(run.plan, ledger, workers, Timetable(run.plan, machine.clock, 0.0, lambda: 0.0))
    assert choice.tried == set(run.batches)
    assert choice.of_next_start(0.0) == ()
    assert set(choice.of_next_start(1e6)) <= set(run.batches)


def test_progress_is_never_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.studies.sweep.supervisor.analyse", lambda _: None)
    seen: list[Progress] = []
    sweep(fork(), plan(budget_s=30.0), report=seen.append)
    assert seen[-1].cells_done == seen[-1].cells_total


def test_a_cell_keeps_the_steps_that_its_first_start_calibrated() -> None:
    run = sweep(fork(), plan(budget_s=30.0))
    first, *_ = run.setups
    ledger = Ledger(run, MemoryRecorder())
    ledger.add(first.model_copy(update={"process": 99, "steps_per_block": first.steps_per_block + 7}))
    assert ledger.steps_per_block(first.target, first.batch) == first.steps_per_block
    assert ledger.steps_per_block(first.target, 999_999) is None
    assert ledger.next_pass == max(item.pass_index for item in run.rounds) + 1
