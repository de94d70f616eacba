"""Targets with different numbers of cores take turns without a disadvantage for those with more."""

from dataclasses import replace

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.studies.turns import IDLE_S, CoreTurns, uneven, up_and_down
from core.workload.spec import Target, Workload
from simulated.noise import QUIET
from simulated.simulation import Curve, Machine
from simulated.sweeps import sweep

WORKLOAD = Workload(network="784-512-512-10")
ONE, TWO, ALL, GPU = Target(threads=1), Target(threads=2), Target(), Target(device="gpu:0")


@pytest.mark.parametrize(
    ("target", "other", "wider"),
    [
        (TWO, ONE, True),
        (ONE, TWO, False),
        (TWO, TWO, False),
        (ALL, TWO, True),
        (TWO, ALL, False),
        (ALL, ALL, False),
        (ALL, GPU, True),
        (TWO, GPU, True),
        (ONE, GPU, False),
        (GPU, ONE, False),
        (GPU, GPU, False),
    ],
)
def test_a_target_is_wider_than_one_that_leaves_its_cores_idle(target: Target, other: Target, wider: bool) -> None:
    assert (target.cores > other.cores) is wider


def test_cores_are_woken_after_a_narrower_target_or_a_pause_and_only_then() -> None:
    turns = CoreTurns()
    turns.started((ONE, TWO))
    assert turns.wakes_cores(TWO, 0.0)
    turns.ended(ONE, 1.0)
    assert turns.wakes_cores(TWO, 1.0)
    assert not turns.wakes_cores(ONE, 1.0)
    turns.ended(TWO, 2.0)
    assert not turns.wakes_cores(TWO, 2.0 + 0.9 * IDLE_S)
    assert turns.wakes_cores(TWO, 2.0 + 1.1 * IDLE_S)
    assert not turns.wakes_cores(ONE, 3.0)


@pytest.mark.parametrize("targets", [(ONE, ONE), (TWO, TWO), (ALL,), (ONE, GPU)])
def test_targets_of_equal_width_take_short_turns(targets: tuple[Target, ...]) -> None:
    turns = CoreTurns()
    turns.started(targets)
    assert not uneven(targets)
    assert not any(turns.wakes_cores(target, 1.0) for target in targets)


@pytest.mark.parametrize(("first", "second"), [(ONE, TWO), (ALL, GPU)])
def test_cores_that_wake_late_do_not_move_the_ratio(first: Target, second: Target) -> None:
    """Check true ratios of 1.2 and 0.8 on a machine whose idle cores make a block of several threads 30 % longer."""
    curves = (Curve(0.6, 0.003), Curve(0.5, 0.00375))
    machine = Machine(curves, replace(QUIET, asleep=0.3))
    plan = SweepPlan(workload=WORKLOAD, targets=(first, second), batches=(8, 2048), budget_s=60.0, refine=False)
    run = sweep(machine, plan)
    for point in analyse(run).speed_ups:
        truth = curves[0].step_ms(point.batch) / curves[1].step_ms(point.batch)
        assert point.ratio == pytest.approx(truth, rel=0.01)
    blocks = [block for item in run.rounds for block in item.blocks]
    wide = {0: first, 1: second}
    woken = [block for block in blocks if block.wake_ms is not None]
    assert woken
    assert {wide[block.target] for block in woken} == {TWO if first is ONE else ALL}
    visits = {(item.batch, item.pass_index, item.process) for item in run.rounds}
    assert len(woken) == len(visits)


def test_targets_run_up_and_down_by_their_cores_and_those_with_as_many_keep_their_order() -> None:
    targets = (TWO, ONE, ALL, GPU)
    assert uneven(targets)
    assert up_and_down((0, 1, 2, 3), targets, 0) == (1, 3, 0, 2)
    assert up_and_down((3, 1, 2, 0), targets, 1) == (2, 0, 3, 1)
