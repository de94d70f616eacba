"""From rounds to replicates: what counts as one, what is left out, and the claims that each look may make."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from core.base.evidence import Block, Interference, Process
from core.rounds.answer.observations import ALLOWANCE, ALPHA, MOST_DF, looks_of, observe, observe_alone
from core.rounds.run import Round, Run
from core.workload.spec import Target
from simulated.replicates import observed
from simulated.runs import make_run, planned
from tests.support.points import run_of

BATCHES = (1, 4, 16)
QUIET, BUSY = Interference(other_cpu_pct=1.0), Interference(other_cpu_pct=90.0)


def run_with(
    logs: Sequence[tuple[int, int, float, Interference]], status: str = "finished", starts: int | None = None
) -> Run:
    """Return rounds (start, batch, log-ratio, interference); the workers were started ``starts`` times."""
    rounds = tuple(
        Round(
            index=index,
            batch=batch,
            interference=interference,
            blocks=(
                Block(target=0, process=start, steps=1, step_ms=math.exp(value)),
                Block(target=1, process=start, steps=1, step_ms=1.0),
            ),
        )
        for index, (start, batch, value, interference) in enumerate(logs)
    )
    count = starts or 1 + max(start for start, *_ in logs)
    processes = tuple(
        Process(index=start, target=target, pid=1, startup_ms=1.0, device="cpu")
        for start in range(count)
        for target in (0, 1)
    )
    return run_of(lambda _: 1.0, (1,), processes=1, rounds=1).model_copy(
        update={"rounds": rounds, "processes": processes, "status": status}
    )


def of_starts(ended: int, status: str, opened: int = 0) -> Run:
    """Return a run of ``ended`` and ``opened`` unfinished starts, with three rounds of each batch in each."""
    logs = [
        (start, batch, 0.1 * start, QUIET) for start in range(ended + opened) for batch in BATCHES for _ in range(3)
    ]
    return run_with(logs, status, ended + opened)


def test_a_replicate_is_a_start_and_its_value_the_median_of_its_rounds() -> None:
    logs = [(start, 8, value, QUIET) for start in range(3) for value in (0.1 * start, 0.1 * start + 0.01, 9.0)]
    table = observe(run_with(logs))
    assert table.values[:, 0] == pytest.approx([0.01, 0.11, 0.21])
    assert table.rounds[:, 0].tolist() == [3, 3, 3]


@pytest.mark.parametrize("more", [{"rounds": 40}, {"passes": 10}])
def test_rounds_and_passes_add_no_degrees_of_freedom(more: dict[str, int]) -> None:
    table = observe(run_of(lambda _: 1.0, BATCHES, processes=4, process_noise=0.05, **more))
    assert table.values.shape == (4, 3)
    assert (table.estimate.df <= 3 * (4 - 1) / 2).all(), "those of all batches count half at most"


def test_starts_add_degrees_of_freedom_up_to_a_limit() -> None:
    rng = np.random.default_rng(3)
    df = [observed([1, 2, 4], rng.normal(0, 0.03, (count, 3))).estimate.df[0] for count in (4, 8, 60)]
    assert df == sorted(df)
    assert df[0] <= 3 * (4 - 1) / 2, "those of all batches count half at most"
    assert df[-1] == MOST_DF


@pytest.mark.parametrize("starts", [3, 4])
def test_batches_that_share_the_offsets_of_their_starts_add_no_degrees_of_freedom(starts: int) -> None:
    offsets = np.random.default_rng(4).normal(0, 0.03, (starts, 1))
    assert observed(2.0 ** np.arange(8), np.repeat(offsets, 8, axis=1)).estimate.df == pytest.approx([starts - 1] * 8)


def test_intervals_hold_whatever_part_of_the_offsets_batches_share() -> None:
    rng = np.random.default_rng(5)
    for shared, own in ((0.03, 0.0), (0.02, 0.01), (0.0, 0.03)):
        inside = []
        for _ in range(200):
            values = rng.normal(0, shared, (4, 1)) + rng.normal(0, own, (4, 8))
            found = observed(2.0 ** np.arange(8), values).estimate
            inside.append(abs(found.center[0]) <= found.half_width(ALPHA)[0])
        assert np.mean(inside) >= 0.91, (shared, own)


@pytest.mark.parametrize("starts", [1, 2])
def test_fewer_than_three_replicates_carry_the_allowance(starts: int) -> None:
    table = observed([1, 2], np.zeros((starts, 2)))
    assert table.few == (1, 2)
    assert table.estimate.error == pytest.approx([ALLOWANCE / math.sqrt(starts)] * 2)
    assert replace(table, allowance=0.2).estimate.error == pytest.approx([0.2 / math.sqrt(starts)] * 2)
    assert observed([1, 2], np.zeros((3, 2))).few == ()
    assert observed([1, 2], np.zeros((3, 2))).estimate.error == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(
    ("frameworks", "allowance"),
    [
        (("tensorflow", "jax"), ALLOWANCE),
        (("tensorflow", "torch"), math.hypot(0.02, 0.14)),
        (("pytorch", "torch"), math.hypot(0.14, 0.14)),
    ],
)
def test_the_allowance_is_as_large_as_processes_of_a_framework_differ(
    frameworks: tuple[str, str], allowance: float
) -> None:
    targets = tuple(Target(threads=1, framework=framework) for framework in frameworks)
    run = planned(make_run(1), targets=targets)
    assert observe(run).allowance == pytest.approx(allowance)
    assert observe_alone(run, 1).allowance == pytest.approx(0.14 if "torch" in frameworks else ALLOWANCE)


def test_a_machine_is_not_blamed_for_what_processes_of_a_framework_differ_by() -> None:
    table = observed([1, 2], np.array([[-0.15, -0.15], [0.0, 0.0], [0.15, 0.15]]))
    assert table.unstable
    assert not replace(table, allowance=math.hypot(0.14, 0.14)).unstable


def test_the_scatter_of_few_rounds_comes_on_top_of_the_allowance() -> None:
    rng = np.random.default_rng(1)
    logs = [(0, batch, value, QUIET) for batch in BATCHES for value in rng.normal(0, 0.3, 4)]
    error = observe(run_with(logs)).estimate.error
    assert error.mean() > 1.5 * ALLOWANCE
    assert (error > ALLOWANCE).all()


def test_replicates_that_agree_by_luck_are_no_more_exact_than_the_scatter_of_their_rounds_allows() -> None:
    logs = [(start, batch, 0.03 + off, QUIET) for start in range(4) for batch in BATCHES
            for off in (-0.1, -0.05, 0.0, 0.05, 0.1)]  # fmt: skip
    estimate = observe(run_with(logs)).estimate
    assert estimate.center == pytest.approx([0.03] * 3)
    assert estimate.error == pytest.approx([1.25 * 1.4826 * 0.05 * 5 / 4.2 / math.sqrt(5) / math.sqrt(4)] * 3)


def test_a_single_round_has_no_interval() -> None:
    assert np.isinf(observe(run_with([(0, batch, 0.5, QUIET) for batch in BATCHES])).estimate.error).all()


def test_the_variance_is_the_larger_one_of_own_and_pooled() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, (5, 6)) * np.array([0.05, 0.05, 0.5, 0.05, 0.05, 0.05])
    values[:, 4] *= 0.02
    error = observed(2.0 ** np.arange(6), values).estimate.error
    assert error[4] > 0.02, "what is calm by luck has the pooled one"
    assert error[2] == pytest.approx(values[:, 2].std(ddof=1) / math.sqrt(5)), "and what is restless its own"


def test_variances_follow_the_trend_of_scatter_over_batches() -> None:
    rng = np.random.default_rng(7)
    batches, sd = 2.0 ** np.arange(11), np.geomspace(0.08, 0.01, 11)
    errors = np.array([observed(batches, rng.normal(0, sd, (4, 11))).estimate.error for _ in range(200)])
    assert (np.median(errors, axis=0) / (sd / 2)) == pytest.approx(np.ones(11), abs=0.45)


def test_looks_come_at_half_as_many_starts_again() -> None:
    at = [starts for starts in range(1, 30) if looks_of(starts)[1] == starts]
    assert at == [3, 4, 6, 9, 13, 19, 28]
    assert [looks_of(starts) for starts in (1, 3, 5, 13)] == [(1, 3), (1, 3), (2, 4), (5, 13)]


def test_all_looks_together_spend_five_per_cent() -> None:
    spent = [observed([1], np.zeros((3, 1)), looks=looks).alpha for looks in range(1, 500)]
    assert spent[0] == ALPHA / 2
    assert 0.049 < sum(spent) <= ALPHA


@pytest.mark.parametrize("status", ["running", "cancelled", "interrupted"])
@pytest.mark.parametrize(("ended", "rests_on", "looks"), [(2, 0, 1), (3, 3, 1), (5, 4, 2), (8, 6, 3), (9, 9, 4)])
def test_a_run_cut_short_rests_on_the_starts_up_to_the_last_planned_look(
    status: str, ended: int, rests_on: int, looks: int
) -> None:
    table = observe(of_starts(ended, status, opened=1))
    assert (len(table.values), table.looks) == (rests_on, looks)
    assert np.isfinite(table.picture).all(), "the picture has all of it"
    assert np.isfinite(table.estimate.error).all() == (rests_on > 0)


@pytest.mark.parametrize(("starts", "looks"), [(3, 1), (4, 2), (5, 3), (6, 3), (7, 4)])
def test_a_run_that_ended_rests_on_all_of_its_starts_and_that_is_a_look(starts: int, looks: int) -> None:
    table = observe(of_starts(starts, "finished"))
    assert (len(table.values), table.looks) == (starts, looks)


def test_disturbed_rounds_are_left_out_by_cause_only() -> None:
    clean = [(start, 8, value, QUIET) for start in range(3) for value in (0.0, 0.01, 0.02)]
    extreme = [(start, 8, 5.0, interference) for start in range(3) for interference in (QUIET, BUSY)]
    table = observe(run_with(clean + extreme))
    assert table.quiet
    assert table.rounds[:, 0].tolist() == [4, 4, 4], "the busy ones are gone, the extreme ones not"
    late = [(start, 8, value, BUSY) for start in range(3) for value in (0.0, 0.01, 0.02)]
    assert observe(run_with(clean + late)).rounds[:, 0].tolist() == [3, 3, 3], "however ordinary they look"


def test_a_replicate_with_few_undisturbed_rounds_goes_only_where_three_others_stay() -> None:
    def replicates(starts: int) -> list[tuple[int, int, float, Interference]]:
        quiet = [(start, 8, 0.0, QUIET) for start in range(starts) for _ in range(4)]
        return quiet + [(starts, 8, 1.0, BUSY) for _ in range(4)]

    left_out, kept = observe(run_with(replicates(3))), observe(run_with(replicates(2)))
    assert left_out.values[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert kept.values[:, 0] == pytest.approx([0.0, 0.0, 1.0])
    assert left_out.quiet
    assert kept.quiet


def test_where_most_rounds_were_disturbed_none_is_left_out_and_the_machine_was_not_quiet() -> None:
    logs = [(start, 8, 0.0, BUSY if start else QUIET) for start in range(4) for _ in range(4)]
    table = observe(run_with(logs))
    assert not table.quiet
    assert table.rounds.sum() == len(logs)
    half = [(start, 8, 0.0, BUSY if start > 1 else QUIET) for start in range(4) for _ in range(4)]
    assert observe(run_with(half)).quiet


def test_disturbances_that_could_not_be_seen_leave_nothing_out() -> None:
    table = observe(run_with([(start, 8, 0.0, Interference()) for start in range(3) for _ in range(3)]))
    assert table.quiet
    assert table.rounds.sum() == 9


def test_step_times_of_one_target_have_the_same_replicates() -> None:
    run = run_of(lambda b: 1.0 + b, BATCHES, processes=4, noise=0.0)
    assert np.exp(observe_alone(run, 0).values).tolist() == pytest.approx(np.full((4, 3), [2.0, 5.0, 17.0]))
