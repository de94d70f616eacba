"""Sweeps of one and of three to six targets on simulated machines: their rounds, use of time, failures."""

import math
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.answer.energy import energy_of, leads
from core.rounds.run import Run
from core.rounds.show.export import rounds_csv
from core.rounds.show.imports import read_run
from core.studies.sweep.focus import envelope_changes, focus_of
from core.studies.sweep.schedule import REPLICATES
from core.studies.sweep.supervisor import run_sweep
from core.workload.spec import Target
from simulated.runs import make_run
from simulated.simulation import Curve, Fault, Machine, NoiseModel, random_ladder, true_bands
from simulated.sweeps import plan, sweep
from simulated.tools import tools_for
from tests.support.points import run_of_steps

LADDER = (Curve(0.2, 0.05), Curve(0.5, 0.02), Curve(2.0, 0.005))  # changes at about 10 and 100
TRIED = tuple(2**i for i in range(11))
SLOW = (Curve(1.0, 0.2), Curve(4.0, 0.1), Curve(9.0, 0.06))  # never the fastest


def ladder(count: int, seed: int, lost: int = 0) -> tuple[Curve, ...]:
    return random_ladder(np.random.default_rng(seed), count, lost)


# -- rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(3, 7))
def test_every_target_follows_every_other_about_equally_often(count: int) -> None:
    alike = (Curve(0.5, 0.01),) * count
    names = ("cpu", "cpu,execution=xla", "cpu,execution=eager", "cpu,precision=mixed_bfloat16",
             "cpu,execution=xla,precision=mixed_bfloat16", "cpu,execution=eager,precision=mixed_bfloat16")  # fmt: skip
    targets = tuple(map(Target.parse, names))  # all on the same cores
    wanted = plan("1,8,64", count, budget_s=70.0, refine=False, trace=False, targets=targets[:count])
    run = sweep(Machine(alike, NoiseModel(), seed=1), wanted)
    whole = [r for r in run.rounds if len(r.blocks) == count]
    assert {r.process for r in whole} == set(range(len({p.index for p in run.processes})))
    for batch in (1, 8, 64):
        here = [[block.target for block in r.blocks] for r in whole if r.batch == batch]
        follows = Counter(pair for order in here for pair in pairwise(order))
        assert len(here) >= 2 * count
        assert len(follows) == count * (count - 1)
        assert max(follows.values()) - min(follows.values()) <= 2


def test_a_target_that_fails_leaves_rounds_of_the_others_that_rotate() -> None:
    fault = Fault(1, 16, "out_of_memory")
    run = sweep(Machine(LADDER, faults=(fault,)), plan(count=3, budget_s=180.0))
    above = [r for r in run.rounds if r.batch >= 16 and len(r.blocks) == 2]
    assert {tuple(b.target for b in r.blocks) for r in above} == {(0, 2), (2, 0)}
    cells = {(c.target, c.batch): c.outcome for c in run.cells}
    assert (cells[1, 16], cells[1, 64], cells[0, 1024], cells[2, 1024]) == (
        "out_of_memory", "skipped", "measured", "measured",
    )  # fmt: skip


# -- where time goes ---------------------------------------------------------------------------------------------------


def test_the_lowest_curve_changes_where_two_meet_and_noise_is_no_change() -> None:
    batches = 2.0 ** np.arange(11)
    logs = np.log([[curve.step_ms(b) for b in batches] for curve in LADDER])
    truth = true_bands(LADDER, 1, 1024)
    found = envelope_changes(np.log2(batches), logs)
    assert [(before, after) for _, before, after in found] == [(0, 1), (1, 2)]
    for (batch, *_), band in zip(found, truth[1:], strict=True):
        assert abs(math.log2(batch / band.from_batch)) < 0.15
    wobble = logs.copy()
    wobble[2, 0] = logs[0, 0] - 0.01
    assert len(envelope_changes(np.log2(batches), wobble)) == 2
    ended = logs.copy()
    ended[1, 5:] = np.inf  # the second failed, while it was the fastest: from it to the first is no change
    assert [(before, after) for _, before, after in envelope_changes(np.log2(batches), ended)] == [(0, 1), (0, 2)]


def test_a_sweep_is_not_answered_while_it_is_open_which_of_two_is_the_fastest() -> None:
    near = (Curve(0.2, 0.05), Curve(0.5, 0.02), Curve(0.505, 0.0202))  # the last two differ by 1 %
    run = run_of_steps([curve.step_ms for curve in near], TRIED, processes=5, rounds=6, noise=0.02,
                       process_noise=(0.03, 0.03, 0.03), measured_here=True)  # fmt: skip
    focus = focus_of(run)
    assert focus.undecided
    assert not focus.is_answered(width=10.0, cells_settled=True)
    assert {1, 2} <= set(focus.targets_at(512))
    assert 0 not in focus.targets_at(512)
    assert max(focus.deciding(TRIED)) == 1024


def test_time_goes_to_targets_that_may_be_the_fastest() -> None:
    run = sweep(Machine((SLOW[0], *LADDER, *SLOW[1:]), NoiseModel(), seed=3), plan("1:256", 6, budget_s=200.0))
    assert focus_of(run).contenders == (1, 2, 3)
    blocks = Counter(b.target for r in run.rounds for b in r.blocks)
    assert min(blocks[2], blocks[3]) > 1.5 * max(blocks[slow] for slow in (0, 4, 5))
    assert {(c.target, c.batch) for c in run.cells if c.outcome == "measured"} >= {
        (t, 2**i) for t in range(6) for i in range(9)
    }
    starts = Counter(p.target for p in run.processes)
    assert starts[0] == starts[1] == starts[2] == starts[3], "all are held against the first, which no start leaves out"
    assert starts[1] > starts[4] == starts[5] == REPLICATES, "seen in enough starts for an interval"
    assert {cost.target for cost in run.loops if cost.times is not None} == set(range(6))


def test_rounds_gather_around_every_boundary() -> None:
    run = sweep(Machine(LADDER, NoiseModel(), seed=5), plan(count=3, budget_s=200.0))
    found = focus_of(run).changes
    truth = [band.from_batch for band in true_bands(LADDER, 1, 1024)[1:]]
    assert [change.targets for change in found] == [(0, 1), (1, 2)]
    for change, batch in zip(found, truth, strict=True):
        assert change.established
        assert abs(math.log2(change.batch / batch)) < 0.5
        near = {b: len({r.process for r in run.rounds if r.batch == b}) for b in run.batches if 0.5 < b / batch < 2}
        assert max(near.values()) > REPLICATES
        assert len(near) > 2, "sizes between those of the plan"


@pytest.mark.statistical
def test_a_sweep_of_many_ends_early_when_every_boundary_is_narrow() -> None:
    machine = Machine(LADDER)
    run = sweep(machine, plan(count=3, budget_s=900.0))
    assert machine.clock.now_s() < 300
    assert {c.stop_reason for c in run.cells} <= {"precise", "plateau", "answered"}
    assert all(change.width <= 0.25 for change in focus_of(run).changes)


@pytest.mark.statistical
@pytest.mark.parametrize("count", [1, 3, 4, 5, 6])
def test_the_budget_is_kept(count: int) -> None:
    for budget_s in (15.0, 90.0):
        machine = Machine(ladder(count, 2), NoiseModel(tail=0.1, process=0.2), seed=count)
        sweep(machine, plan(count=count, budget_s=budget_s))
        assert machine.clock.now_s() <= budget_s + 3.0
        assert machine.open_workers == 0


def test_one_target_is_measured_until_its_cells_are_precise() -> None:
    machine = Machine(LADDER[:1], NoiseModel(), seed=2)
    run = sweep(machine, plan(count=1, budget_s=200.0))
    assert machine.clock.now_s() < 235
    assert run.batches == tuple(2**i for i in range(11)), "no batch between those asked for"
    assert {c.stop_reason for c in run.cells} <= {"precise", "plateau"}
    assert len({p.index for p in run.processes}) >= 4
    assert len(run.loops) == 1
    assert run.traces


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_target_that_never_works_leaves_the_others_their_answer() -> None:
    machine = Machine(LADDER, faults=(Fault(0, 1, "error"),))
    run = sweep(machine, plan(count=3))
    assert run.status == "finished"
    assert {c.outcome for c in run.cells if c.target == 0} == {"error", "skipped"}
    assert {change.targets for change in focus_of(run).changes} == {(1, 2)}
    assert {cost.target for cost in run.loops if cost.times is not None} == {1, 2}


def test_a_stopped_sweep_of_many_is_taken_up_where_it_ended() -> None:
    stop = threading.Event()
    first = sweep(
        Machine(LADDER),
        plan(count=3, budget_s=180.0),
        cancel=stop,
        report=lambda at: len(at.record.rounds) >= 60 and stop.set(),
    )
    again = run_sweep(tools_for(Machine(LADDER, seed=1)), first)
    assert again.status == "finished"
    assert again.rounds[: len(first.rounds)] == first.rounds
    assert [r.index for r in again.rounds] == list(range(len(again.rounds)))
    assert {c.outcome for c in again.cells} == {"measured"}


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_rounds_as_csv_come_back(count: int) -> None:
    floors, slopes = (0.2, 0.5, 0.9, 1.4, 2.0, 3.0)[:count], (0.03, 0.02, 0.012, 0.008, 0.005, 0.003)[:count]
    run = make_run(1, floors_ms=floors, slopes_ms=slopes)
    back = read_run(rounds_csv(run).encode(), "points.csv")
    assert back.target_names == run.target_names
    assert [[(b.target, b.step_ms) for b in r.blocks] for r in back.rounds] == [
        [(b.target, b.step_ms) for b in r.blocks] for r in run.rounds
    ]


def test_a_run_of_many_has_an_answer_without_energy() -> None:
    run: Run = run_of_steps([curve.step_ms for curve in LADDER], rounds=4)
    assert len(analyse(run).cells) == 21
    assert energy_of(run).crossover.pattern == "unknown"
    assert leads(run) == {}
