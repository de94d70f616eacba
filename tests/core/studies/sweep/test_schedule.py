"""Where time is spent: pure rules."""

from dataclasses import replace

import numpy as np
import pytest

from core.studies.sweep import schedule
from core.studies.sweep.answer import Crossover, Verdict
from core.studies.sweep.focus import of_two
from core.studies.sweep.record import Run
from core.studies.sweep.schedule import Costs
from tests.support.points import run_of
from tests.support.sweeps import plan

TRIED = tuple(2**i for i in range(11))


def verdict(*crossovers: Crossover, kind: str = "crossover") -> Verdict:
    return Verdict(kind, ("a", "b"), "test", "Test.", crossovers=crossovers)  # type: ignore[arg-type]


def at(batch: float, low: float, high: float) -> Crossover:
    return Crossover(batch, low, high, "b")


def test_workers_are_restarted_when_the_budget_pays_for_two() -> None:
    costs = Costs(startup_s=5.0, prepare_s=1.0, round_s=0.05)
    shortest_s = schedule.shortest_epoch_s(costs, 4)
    assert shortest_s == pytest.approx(5 + 5 * 1 + (4 * 4 + 1) * 2 * 0.05)
    assert schedule.epoch_length_s(1.5 * shortest_s, costs, 4, 4) is None, "one restart alone decides little"
    assert schedule.epoch_length_s(2.3 * shortest_s, costs, 4, 8) == pytest.approx(0.9 * 2.3 / 2 * shortest_s)
    assert schedule.epoch_length_s(10_000.0, costs, 4, 8) == schedule.shortest_epoch_s(costs, 4, 8)


def test_noisier_rounds_make_longer_epochs() -> None:
    costs = Costs(startup_s=4.5, prepare_s=0.5, round_s=0.05)
    passes = [schedule.good_passes(costs, 4, scatter) for scatter in (0.0, 0.05, 0.11, 0.5)]
    # √(7 s / 0.2 s) · 11 % / 3.5 % = 19 rounds, 9 passes of two
    assert passes == [schedule.MIN_EPOCH_PASSES, schedule.MIN_EPOCH_PASSES, 9, schedule.MAX_EPOCH_PASSES]


def test_the_scatter_of_rounds_shrugs_off_drift_and_stalls() -> None:
    calm = run_of(lambda b: 2.0 * b, rounds=40, noise=0.05 / 2**0.5, seed=1)
    assert schedule.round_scatter(calm) == pytest.approx(0.05, rel=0.15)
    stalled = calm.model_copy(
        update={
            "rounds": tuple(
                r.model_copy(update={"blocks": (r.blocks[0].model_copy(update={"step_ms": 99.0}), r.blocks[1])})
                if r.index % 25 == 0
                else r
                for r in calm.rounds
            )
        }
    )
    assert schedule.round_scatter(stalled) == pytest.approx(0.05, rel=0.25)
    assert schedule.round_scatter(run_of(lambda _: 1.0, rounds=1)) == 0.0


def test_no_more_batches_are_visited_than_two_epochs_can_hold() -> None:
    costs = Costs(startup_s=5.0, prepare_s=1.0, round_s=0.05)
    most = schedule.affordable_batches(60.0, costs)
    assert schedule.epoch_length_s(60.0, costs, most, 4) is not None
    assert schedule.epoch_length_s(60.0, costs, most + 1, 4) is None
    assert len(schedule.spread(TRIED, most=5)) == 5
    assert len(schedule.spread(TRIED, most=-3)) == schedule.FEWEST_ACTIVE


def scanned(change: float, climb: bool = False) -> list[int]:
    """The batches that a scan visits, in order, where the lead changes once."""
    seen: list[int] = []
    centers: tuple[float, ...] = ()
    while (batch := schedule.deciding_batch(TRIED, seen, centers, climb)) is not None:
        seen.append(batch)
        centers = (change,) if min(seen) < change < max(seen) else ()
    return seen


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (10, [1, 32, 8, 16]),
        (50, [1, 32, 256, 128, 64]),
        (300, [1, 32, 256, 1024, 512]),
        (9999, [1, 32, 256, 1024]),
    ],
)
def test_a_scan_asks_the_deciding_question_first_and_climbs_eightfold(change: float, order: list[int]) -> None:
    assert scanned(change) == order
    assert set(scanned(change, climb=True)) == {*order, 32, 256, 1024}


def test_a_bracket_is_halved_until_it_is_fine() -> None:
    tried = TRIED
    sizes = []
    while new := of_two(verdict(at(41, 40, 42)), ()).new_batches(tried):
        sizes += new
        tried = tuple(sorted((*tried, *new)))
    assert sizes == [45]
    below, above = max(b for b in tried if b <= 41), min(b for b in tried if b > 41)
    assert above / below <= 2**0.5 + 0.01


def test_refinement_also_follows_a_sign_change_not_yet_proven() -> None:
    assert of_two(verdict(kind="inconclusive"), (90.0,)).new_batches(TRIED) == (91,)
    assert of_two(verdict(kind="tie"), ()).new_batches(TRIED) == ()
    assert of_two(verdict(at(2.5, 2, 3)), ()).new_batches((1, 2, 3, 4)) == (), "no whole batch between 2 and 3"


def test_sign_changes_are_interpolated_in_log2() -> None:
    assert schedule.sign_changes(np.array([4.0, 16.0]), np.array([-0.1, 0.1])) == pytest.approx((8.0,))
    assert schedule.sign_changes(np.array([1.0, 2.0]), np.array([0.1, 0.2])) == ()


def test_small_sign_segments_are_noise_and_large_ones_are_changes() -> None:
    batches = np.array([1.0, 2, 4, 8, 16, 32, 64])
    wobble = np.array([-0.3, -0.2, 0.01, -0.1, 0.2, 0.3, 0.4])
    assert schedule.sign_changes(batches, wobble) == pytest.approx((8 * 2 ** (1 / 3),))
    noisy_start = np.array([0.01, -0.2, -0.3, -0.1, 0.2, 0.3, 0.4])
    assert len(schedule.sign_changes(batches, noisy_start)) == 1
    twice = np.array([0.3, 0.2, -0.3, -0.4, -0.2, 0.3, 0.4])
    assert len(schedule.sign_changes(batches, twice)) == 2


def test_a_small_sign_segment_counts_where_it_is_large_beside_its_errors() -> None:
    batches, shallow = 2.0 ** np.arange(6), np.array([0.8, 0.6, 0.4, 0.2, -0.05, -0.05])
    assert schedule.sign_changes(batches, shallow) == ()
    assert schedule.sign_changes(batches, shallow, 0.1) == ()
    assert schedule.sign_changes(batches, shallow, np.full(6, 0.01)) == pytest.approx((2**3.8,))


def test_time_goes_to_the_interval_and_its_neighbours() -> None:
    assert of_two(verdict(at(41, 33, 60)), ()).deciding(TRIED) == (32, 64)
    assert of_two(verdict(at(41, 20, 70)), ()).deciding(TRIED) == (16, 32, 64)
    wide = of_two(verdict(at(41, 1, 1024)), ())
    assert wide.deciding(TRIED) == (1, 32, 64, 1024)
    early = replace(wide, narrowing=schedule.narrowing(2))
    assert early.deciding(TRIED) == (8, 32, 64, 128), "where the ends will be, not where they are"


def test_few_processes_have_an_interval_that_more_will_narrow() -> None:
    shares = [schedule.narrowing(processes) for processes in range(1, 9)]
    assert shares[0] == shares[1] == shares[2] == pytest.approx((2.571 / 6**0.5) / (4.303 / 3**0.5), rel=1e-3)
    assert shares == sorted(shares)
    assert shares[5:] == [1.0] * 3


def test_an_unproven_change_is_looked_at_from_afar() -> None:
    active = of_two(verdict(kind="inconclusive"), (40.0,)).deciding(TRIED)
    assert active == (8, 32, 64, 128)
    assert of_two(verdict(kind="tie"), ()).deciding(TRIED) == TRIED


def settled(values: list[float]) -> Run:
    run = run_of(lambda _: 1.0, (8,), rounds=len(values))
    blocks = [
        (r.blocks[0].model_copy(update={"step_ms": v}), r.blocks[1]) for r, v in zip(run.rounds, values, strict=True)
    ]
    return run.model_copy(
        update={"rounds": tuple(r.model_copy(update={"blocks": b}) for r, b in zip(run.rounds, blocks, strict=True))}
    )


def test_a_cell_stops_when_precise_or_on_a_plateau() -> None:
    rng = np.random.default_rng(0)
    assert schedule.cell_state(settled([1.0] * 5), 0, 8, 0.05) is None, "five rounds support no interval"
    assert schedule.cell_state(settled([1.0, 1.001] * 3), 0, 8, 0.05) == "precise"
    assert schedule.cell_state(settled(list(rng.uniform(0.5, 1.5, 8))), 0, 8, 0.05) is None
    drifting = list(np.exp(np.linspace(0, 3, 60)))
    assert schedule.cell_state(settled(drifting), 0, 8, 0.05) == "plateau"


@pytest.mark.parametrize(
    ("measured", "crossovers", "expected"),
    [
        ((), (), ()),
        ((64,), (), (64,)),
        ((1, 64), (), (64, 1)),
        (TRIED, (), (32, 1, 1024)),
        (TRIED, (41.0,), (32, 1, 1024)),
        (TRIED, (46.0,), (64, 1, 1024)),  # √(32·64) = 45.3
        (TRIED, (1.2, 500.0), (1, 1024)),
        (TRIED, (5000.0,), (1024, 1)),
    ],
)
def test_the_crossover_is_traced_first_then_both_ends(
    measured: tuple[int, ...], crossovers: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    assert schedule.batches_to_trace(measured, crossovers) == expected


@pytest.mark.parametrize(
    ("budget_s", "trace", "reserve_s"), [(20.0, True, 2.0), (80.0, True, 8.0), (3600.0, True, 8.0), (80.0, False, 0.0)]
)
def test_a_tenth_of_the_budget_is_kept_for_traces(budget_s: float, trace: bool, reserve_s: float) -> None:
    assert schedule.trace_reserve_s(plan(budget_s=budget_s, trace=trace)) == pytest.approx(reserve_s)
