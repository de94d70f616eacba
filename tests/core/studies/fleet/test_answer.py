"""The answer of a fleet run, against machines whose truth is known."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from benchmarks.fleet_bands import judged, machine_curve
from core.analysis.statistics import t_at, t_quantile
from core.base.schema import UserError
from core.rounds.answer.condensed import CondensedRun, TargetCurve, condense
from core.rounds.answer.crossover import ALPHA
from core.studies.fleet.answer import answer_of, bands, faster_words, headline
from core.studies.fleet.export import fleet_data, machines_csv
from core.studies.fleet.text import fleet_text
from core.studies.fleet.unpaired import against_baseline, common_batches, times_of
from core.studies.registry import kind_of, read_any
from simulated.fleet_studies import LARGE, MIDDLE, SMALL, condensed, machine_run, make_fleet
from simulated.runs import true_crossover, true_step_ms

MANY = (pytest.mark.statistical, pytest.mark.timeout(1800))


def curve(*points: tuple[int, float], error: float | None = 0.01, df: float = 4.0) -> TargetCurve:
    batches, steps = zip(*points, strict=True)
    return TargetCurve(
        batches=batches, log_ms=tuple(math.log(ms) for ms in steps), error=(error,) * len(batches),
        df=(df,) * len(batches), rounds=20, units=5,
    )  # fmt: skip


def test_each_machine_is_the_fastest_in_its_band_with_the_true_crossovers_in_the_intervals() -> None:
    study = make_fleet((SMALL, LARGE))
    answer = answer_of(study, {})
    truth = true_crossover((SMALL[0], LARGE[0]), (SMALL[1], LARGE[1]))
    assert [band.targets for band in answer.fastest.bands] == [(0,), (1,)]
    (boundary,) = answer.fastest.boundaries
    assert boundary.low < truth < boundary.high < 1.3 * boundary.low
    (crossover,) = answer.results[1].against.verdict.crossovers
    assert crossover.low < truth < crossover.high
    assert crossover.ahead_after == "sim-1"
    assert answer.results[0].against is None
    assert answer.sentence.startswith(f"The fastest machine is sim-0 up to batch {boundary.batch:.0f} (95 % interval ")
    assert faster_words(answer.results[1].against) == f"from {round(crossover.batch)} ({round(crossover.low)} to " + (
        f"{round(crossover.high)})"
    )


def test_another_machine_can_be_the_baseline_and_an_unknown_one_is_refused() -> None:
    study = make_fleet()
    answer = answer_of(study, {}, baseline="sim-2")
    assert answer.results[2].against is None
    assert faster_words(answer.results[0].against).startswith("up to ")
    with pytest.raises(UserError, match="no machine"):
        answer_of(study, {}, baseline="elsewhere")


def test_a_machine_counts_with_its_fastest_target_or_with_the_one_that_was_asked_for() -> None:
    study = make_fleet((SMALL, SMALL), second=(LARGE, MIDDLE))
    answer = answer_of(study, {})
    used = {cell.batch: cell.target for cell in answer.results[0].cells}
    assert used[1] == 0
    assert used[1024] == 1
    assert answer.results[0].cell(1024).step_ms == pytest.approx(true_step_ms(*LARGE, 1024), rel=0.03)
    alone = answer_of(study, {}, target=0)
    assert {cell.target for cell in alone.results[0].cells} == {0}
    assert alone.results[1].against.verdict.kind in ("tie", "inconclusive")
    assert alone.results[0].run.own[0].words.startswith("from ")


def test_unpaired_is_wider_than_paired_by_the_sum_of_both_variances() -> None:
    left, right = [curve((1, 1.0), (8, 2.0))], [curve((1, 2.0), (8, 4.0), error=0.02)]
    times = times_of([left, right], common_batches([left, right]))
    one = against_baseline(times, 0, 0.05, ("a", "b"))[1]
    found = one.speed_ups[0]
    df = (0.01**2 + 0.02**2) ** 2 / (0.01**4 / 4 + 0.02**4 / 4)
    assert math.log(found.high / found.ratio) == pytest.approx(
        t_at(1 - ALPHA / 2, np.array([df]))[0] * math.hypot(0.01, 0.02), rel=1e-6
    )
    assert found.ratio == pytest.approx(0.5)


def test_targets_that_tie_on_a_machine_widen_its_interval() -> None:
    single, tied = [curve((1, 1.0), (8, 2.0))], [curve((1, 1.0), (8, 2.0)), curve((1, 1.001), (8, 2.001))]
    other = [curve((1, 3.0), (8, 5.0))]

    def width(machine: list[TargetCurve]) -> float:
        times = times_of([machine, other], common_batches([machine, other]))
        found = against_baseline(times, 0, 0.05, ("a", "b"))[1].speed_ups[0]
        return math.log(found.high / found.low)

    assert width(tied) > 1.1 * width(single)


def test_a_machine_without_a_target_that_was_skipped_there_has_no_step_time_but_a_failed_one_does_not_count() -> None:
    fast, slow = curve((1, 1.0), (8, 1.5)), curve((1, 2.0), (8, 4.0), (64, 20.0))
    other = [curve((1, 3.0), (8, 5.0), (64, 30.0)), curve((1, 4.0), (8, 6.0), (64, 40.0))]
    skipped = times_of([[fast, slow], other], np.array([1.0, 8.0, 64.0]))
    assert np.isnan(skipped.center[0, -1])
    failed = fast.model_copy(update={"failed_from": 64})
    assert math.exp(times_of([[failed, slow], other], np.array([1.0, 8.0, 64.0])).center[0, -1]) == pytest.approx(20.0)


def test_nothing_is_claimed_without_replicates() -> None:
    machines = [[curve((1, 1.0), (8, 4.0), error=None, df=0.0)], [curve((1, 2.0), (8, 3.0), error=None, df=0.0)]]
    times = times_of(machines, common_batches(machines))
    assert [(b.low, b.high) for b in bands(times, 0.05).boundaries] == [(None, None)]
    one = against_baseline(times, 0, 0.05, ("a", "b"))[1]
    assert not one.verdict.has_interval
    assert faster_words(one) == "not clear"


def test_a_thousand_machines_are_compared_at_once_and_alike_ones_are_counted() -> None:
    def machines(count: int) -> list[list[TargetCurve]]:
        rng = np.random.default_rng(1)
        found = []
        for n in range(count):
            base = 1.0 if n % 4 == 0 else 1.4 + 0.1 * (n % 4)
            noise = rng.normal(0, 0.01, 3)
            steps = [base * ms * math.exp(e) for ms, e in zip((1.0, 2.0, 6.0), noise, strict=True)]
            found.append([curve(*zip((1, 8, 64), steps, strict=True))])
        return found

    many = machines(1000)
    found = bands(times_of(many, common_batches(many)), 0.05)
    fastest = set(range(0, 1000, 4))
    assert all(set(band.targets) <= fastest and len(band.targets) > 62 for band in found.bands)
    said = headline([f"m{n}" for n in range(1000)], found, 0.05, (1, 8, 64), has_interval=True)
    assert re.fullmatch(r"Not.*64: \d+ machines\.", said)


def test_money_changes_what_is_the_cheapest_and_needs_prices_of_one_currency() -> None:
    study = make_fleet((SMALL, LARGE), prices={"sim-0": 1.0, "sim-1": 100.0})
    answer = answer_of(study, {})
    assert [band.targets for band in answer.cheapest.bands] == [(0,)]
    cost = answer.results[0].cost(1024)
    assert cost.value == pytest.approx(1e6 / 1024 * true_step_ms(*SMALL, 1024) / 1000 / 3600, rel=0.03)
    assert cost.low < cost.value < cost.high
    assert answer_of(make_fleet((SMALL, LARGE), prices={"sim-0": 1.0}), {}).cheapest is None


def test_with_fewer_than_two_machines_it_says_what_is_missing() -> None:
    with pytest.raises(UserError, match="of 3 machines"):
        answer_of(make_fleet((SMALL,), absent=2), {})
    answer = answer_of(make_fleet((SMALL, LARGE), absent=1), {})
    assert [machine.name for machine in answer.absent] == ["lost-0"]
    assert "lost-0: Its node" in fleet_text(make_fleet((SMALL, LARGE), absent=1), answer)


def test_condensed_runs_say_the_same_as_whole_ones_and_survive_json() -> None:
    study = make_fleet()
    curves = {run_id: CondensedRun.model_validate_json(c.model_dump_json()) for run_id, c in condensed(study).items()}
    apart = study.kept_apart({run.id: run.id for run in study.runs})
    assert apart.runs == ()
    assert answer_of(apart, curves) == answer_of(study, {})
    run = machine_run(1, SMALL, LARGE)
    own = condense(run).own[0]
    (batch, low, high) = own.crossovers[0]
    assert low < true_crossover((SMALL[0], LARGE[0]), (SMALL[1], LARGE[1])) < high
    assert own.words.startswith(f"from {round(batch)}")


def test_text_and_json_name_the_machines_and_hold_the_record() -> None:
    study = make_fleet((SMALL, SMALL), second=(LARGE, MIDDLE), prices={"sim-0": 1.0, "sim-1": 2.0}, absent=1)
    answer = answer_of(study, {})
    lines = fleet_text(study, answer).splitlines()
    assert lines[0] == answer.sentence
    assert lines[2].split()[0] == "Machine"
    assert any(line.startswith("Cheapest sample,") for line in lines)
    data = fleet_data(study, answer)
    assert [machine["machine"] for machine in data["machines"]] == ["sim-0", "sim-1"]
    assert read_any(json.dumps(data)) == (kind_of("fleet"), study)
    assert len(machines_csv(study, answer).splitlines()) == 1 + 2 * len(answer.batches)


def test_quantiles_of_many_are_those_of_each() -> None:
    df = np.array([0.0, 1.0, 4.0, 30.0])
    found = t_at(0.975, df)
    assert math.isinf(found[0])
    assert found[1:].tolist() == [t_quantile(0.975, n) for n in (1, 4, 30)]
    assert t_at(np.array([0.9, 0.975]), np.array([4.0, 4.0])).tolist() == [t_quantile(0.9, 4), t_quantile(0.975, 4)]


@pytest.mark.parametrize("count", [3, 6])
def test_unpaired_answers_are_right_few(count: int) -> None:
    assert judged("changes far apart", count, 6).right >= 5 / 6


@pytest.mark.parametrize(
    ("truth", "count", "fleets"),
    [
        pytest.param(*case, marks=MANY)
        for case in (
            ("changes far apart", 3, 600),
            ("changes close together", 6, 400),
        )
    ],
)
def test_unpaired_answers_are_right_in_95_of_100(truth: str, count: int, fleets: int) -> None:
    """Check a few fleets; benchmarks/fleet_bands.py judges 1,000 of each kind."""
    row = judged(truth, count, fleets)
    assert row.right >= 0.92
    assert row.crossovers > 0.6, "looks and replicates cost power: 0.65"
    assert row.covered >= 0.92


@pytest.mark.parametrize("count", [pytest.param(n, marks=MANY) for n in (3, 6)])
def test_unpaired_equal_machines_are_no_more_often_told_apart(count: int) -> None:
    assert judged("all equal", count, 200).right >= 0.94


def test_a_wrong_answer_is_called_wrong() -> None:
    rng = np.random.default_rng(3)
    machines = machine_curve(rng, 3)
    found = bands(times_of(machines.curves, common_batches(machines.curves)), 0.05)
    assert machines.wrong(found) == ()
    shifted = tuple(
        dataclasses.replace(b, low=4 * b.low, high=4 * b.high) if b.low and b.high else b for b in found.boundaries
    )
    assert machines.wrong(dataclasses.replace(found, boundaries=shifted))
