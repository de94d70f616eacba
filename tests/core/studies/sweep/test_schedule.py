"""The allocation of time: pure rules."""

from dataclasses import replace

import numpy as np
import pytest

from core.rounds.answer.answer import Crossover, Verdict
from core.rounds.run import Run
from core.studies.sweep import schedule
from core.studies.sweep.focus import of_two
from core.studies.sweep.schedule import Costs
from simulated.sweeps import plan
from tests.support.points import run_of

TRIED = tuple(2**i for i in range(11))


def verdict(*crossovers: Crossover, kind: str = "crossover") -> Verdict:
    return Verdict(kind, ("a", "b"), "test", "Test.", crossovers=crossovers)  # type: ignore[arg-type]


def at(batch: float, low: float, high: float) -> Crossover:
    return Crossover(batch, low, high, "b")


CHEAP = Costs(startup_s=0.1, prepare_s=0.6, visit_s=0.2)  # of a batch on two forks
DEAR = Costs(startup_s=6.0, prepare_s=2.0, visit_s=0.2)  # of a batch on a CPU and a GPU


@pytest.mark.parametrize(("round_s", "rounds"), [(0.0, 12), (0.01, 12), (0.025, 8), (0.05, 4), (0.1, 2), (0.9, 2)])
def test_a_visit_is_short_whatever_a_round_takes(round_s: float, rounds: int) -> None:
    assert schedule.rounds_of_a_visit(round_s) == rounds


@pytest.mark.parametrize(
    ("total_s", "costs", "batches", "starts"),
    [(26, CHEAP, 11, 3), (6, CHEAP, 11, 2), (2, CHEAP, 11, 1), (42, DEAR, 11, 3), (38, DEAR, 11, 2), (38, DEAR, 1, 3)],
)
def test_three_starts_are_wanted_where_they_fit_with_a_few_batches(
    total_s: float, costs: Costs, batches: int, starts: int
) -> None:
    assert schedule.replicates(total_s, costs.startup_s, costs.batch_s, batches) == starts


def test_time_is_kept_for_further_starts_once_a_good_number_of_batches_has_room() -> None:
    assert schedule.kept_s(40.0, CHEAP) == pytest.approx(3 * 3.1), "three starts of three batches"
    assert schedule.kept_s(10.0, CHEAP) == pytest.approx(0.8), "three starts of five batches fill it"
    assert schedule.kept_s(80.0, DEAR) == pytest.approx(13.2), "one"
    assert schedule.kept_s(50.0, DEAR) == pytest.approx(4.0)


def test_where_replicates_are_dear_each_gets_more_visits() -> None:
    visits = [1 + costs.more_visits_s / costs.visit_s for costs in (CHEAP, DEAR, Costs(0.0, 0.1, 0.2))]
    assert visits == pytest.approx([3 * 3.5**0.5, schedule.MOST_VISITS, 3 * 0.5**0.5])


def test_what_no_start_needs_is_shared_out() -> None:
    start = schedule.together([CHEAP] * 10, 0.1)
    assert start.start_s == pytest.approx(8.1)
    few = schedule.together([CHEAP] * 3, 0.1)
    extra_s, follow = schedule.extra_s(27.0, start, 2, 16.2, few, done=1)
    assert (extra_s, follow) == (pytest.approx((27.0 - 1.08 * 16.2 - 3 * 2.5) / 6), 5), "two whole ones, three of few"
    assert schedule.extra_s(3600.0, few, 0, 0.0, few, done=8)[0] == few.more_visits_s
    assert schedule.extra_s(2.6, few, 0, 0.0, few, done=4) == (2.6, 0), "the last one gets what is left"
    assert schedule.extra_s(-0.5, few, 0, 0.0, few, done=4) == (0.0, 0)


def test_batches_that_do_not_all_fit_are_evenly_spread_with_both_ends() -> None:
    assert schedule.evenly_spread(TRIED, ())[:5] == [1024, 1, 32, 4, 128]
    assert schedule.evenly_spread(TRIED, (1, 32, 8, 16))[:2] == [1024, 128]
    assert sorted(schedule.evenly_spread(TRIED, (8,))) == sorted(set(TRIED) - {8})
    assert schedule.evenly_spread((5,), (5,)) == []


def test_larger_batches_are_expected_to_take_longer() -> None:
    assert schedule.expected_s(8, {}, 0.5) == 0.5
    seen = {1: 0.2, 32: 0.4}
    assert [schedule.expected_s(b, seen, 0.5) for b in (1, 8, 32)] == pytest.approx([0.2, 0.3, 0.4])
    assert schedule.expected_s(1024, seen, 0.5) == pytest.approx(0.6)


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


def test_of_deciding_batches_never_fewer_than_three_are_visited() -> None:
    assert len(schedule.spread(TRIED, most=5)) == 5
    assert len(schedule.spread(TRIED, most=-3)) == schedule.FEWEST_ACTIVE


def scanned(change: float, climb: bool = False) -> list[int]:
    """Return the batches that a scan visits, in order, if the lead changes once."""
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
    run = run_of(lambda _: 1.0, (8,), processes=1, rounds=len(values))
    blocks = [
        (r.blocks[0].model_copy(update={"step_ms": v}), r.blocks[1]) for r, v in zip(run.rounds, values, strict=False)
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
