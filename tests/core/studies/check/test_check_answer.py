"""The decision of a check, from given ratios of its processes."""

import math

import numpy as np
import pytest

from core.analysis.statistics import t_quantile
from core.base.evidence import Warning
from core.base.schema import UserError
from core.base.text import in_markdown
from core.rounds.run import Cell
from core.studies.check.answer import OCCASION_ALLOWANCE, check_answer
from core.studies.check.export import check_markdown, check_text, differences, notes, sentence
from core.studies.check.record import StoredSteps, check_batches, median_steps, stored_steps, usual_batches
from simulated.checks import NEW, check_plan, made
from simulated.runs import make_environment, make_run

SIX = (0.99, 1.0, 1.01, 0.995, 1.005, 1.0)


def times(factor: float, spread: float = 1.0) -> tuple[float, ...]:
    """Return six processes around a ratio."""
    return tuple(factor * (1 + spread * (value - 1)) for value in SIX)


def test_the_interval_is_students_over_processes() -> None:
    found = check_answer(made({8: times(1.02)})).batches[0]
    logs = np.log(times(1.02))
    half = t_quantile(0.975, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert found.ratio == pytest.approx(math.exp(logs.mean()))
    assert (found.low, found.high) == pytest.approx((math.exp(logs.mean() - half), math.exp(logs.mean() + half)))
    assert (found.baseline_ms, found.processes) == (2.0, 6)


def test_lower_bounds_share_their_chance_of_error_among_batches_and_all_together() -> None:
    one, two = check_answer(made({8: times(1.0)})), check_answer(made({8: times(1.0), 64: times(1.0)}))
    logs = np.log(SIX)
    half = t_quantile(1 - 0.025 / 3, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert two.batches[0].low == pytest.approx(math.exp(logs.mean() - half))
    assert two.batches[0].low < one.batches[0].low
    assert two.batches[0].high == one.batches[0].high


@pytest.mark.parametrize(
    ("ratio", "spread", "verdict"),
    [
        (1.0, 1, "unchanged"), (1.03, 1, "unchanged"), (1.2, 1, "slower"), (0.9, 1, "faster"),
        (1.0, 10, "inconclusive"),  # too wide to exclude 5 %
        (1.048, 1, "inconclusive"),  # clearly slower, but perhaps by less than allowed
        (1.06, 1, "slower"), (1.06, 10, "inconclusive"),
    ],
)  # fmt: skip
def test_a_verdict_of_one_batch(ratio: float, spread: float, verdict: str) -> None:
    answer = check_answer(made({8: times(ratio, spread)}))
    assert answer.verdict == answer.overall.verdict == answer.batches[0].verdict == verdict
    assert (answer.settles_s is not None) == (verdict == "inconclusive")


def test_one_slower_batch_makes_the_check_slower() -> None:
    answer = check_answer(made({8: times(1.0), 64: times(1.0), 512: times(1.15)}))
    assert [one.verdict for one in answer.batches] == ["unchanged", "unchanged", "slower"]
    assert answer.verdict == "slower"


def test_one_faster_batch_does_not_hide_an_unclear_one() -> None:
    answer = check_answer(made({8: times(0.7), 64: times(1.03, 10)}))
    assert answer.overall.verdict == "faster"
    assert answer.verdict == "inconclusive"


def test_faster_means_all_together() -> None:
    assert check_answer(made({8: times(0.8), 64: times(0.9)})).verdict == "faster"
    mixed = check_answer(made({8: times(0.98), 64: times(1.03)}))
    assert mixed.batches[0].verdict == "faster"
    assert mixed.verdict == "unchanged"


def test_what_one_side_could_not_run_excludes_nothing() -> None:
    failed = Cell(target=1, batch=64, outcome="nan_loss", reason="The loss is NaN at batch 64.")
    record = made({8: times(1.0), 64: (math.nan,)}, cells=(failed,))
    answer = check_answer(record)
    assert answer.verdict == "inconclusive"
    assert answer.settles_s is None
    assert "64 could not" in sentence(record, answer)
    assert check_answer(made({8: times(1.3), 64: (math.nan,)}, cells=(failed,))).verdict == "slower"


@pytest.mark.parametrize("processes", [1, 2])
def test_too_few_processes_have_no_interval_and_name_a_budget(processes: int) -> None:
    answer = check_answer(made({8: (2.0,) * processes}))
    assert (answer.verdict, answer.overall.ratio, answer.overall.low) == ("inconclusive", None, None)
    assert answer.settles_s == 6 * 60 / processes


def test_a_start_with_fewer_rounds_than_shrug_off_a_stall_counts_for_nothing() -> None:
    assert check_answer(made({8: times(1.0)}, rounds=2)).overall.ratio is None


def test_the_budget_that_would_settle_it_is_enough() -> None:
    """Check that the verdict is clear with as many processes as that budget allows, of the same scatter."""
    record = made({8: times(1.02, 6)})
    answer = check_answer(record)
    assert answer.verdict == "inconclusive"
    assert answer.settles_s is not None
    more = round(answer.settles_s / 60) * times(1.02, 6)
    assert check_answer(made({8: more})).verdict == "unchanged"
    assert f"about {answer.settles_s:,.0f} s" in sentence(record, answer)


def test_a_slowdown_at_the_limit_is_settled_by_no_budget() -> None:
    answer = check_answer(made({8: tuple(1.04999 * np.array(SIX))}))
    assert (answer.verdict, answer.settles_s) == ("inconclusive", None)


def stored(ratios: tuple[float, ...], limit: float = 0.1, old: tuple[float, ...] = SIX) -> object:
    """Return a check against a stored run whose steps took 2 ms."""
    steps = StoredSteps(
        title="run of Monday", created_at="", environment=make_environment(), steps_ms={8: tuple(2 * np.array(old))}
    )
    record = made({8: ratios}, limit, sides=(NEW,), stored=steps)
    rounds = tuple(
        item.model_copy(update={"blocks": (item.blocks[1].model_copy(update={"target": 0}),)})
        for item in record.run.rounds
    )
    run = record.run.model_copy(update={"rounds": rounds, "target_names": ("checked",)})
    return record.model_copy(update={"run": run})


def test_against_a_stored_run_occasions_are_allowed_for() -> None:
    found = check_answer(stored(times(1.0), limit=0.15)).batches[0]
    least = math.log(found.high / found.low) / 2
    assert least > 1.96 * OCCASION_ALLOWANCE
    assert found.verdict == "unchanged"
    assert found.ratio == pytest.approx(1.0, rel=1e-3)
    assert check_answer(stored(times(1.0), limit=0.1)).verdict == "inconclusive"
    assert check_answer(stored(times(2.0))).verdict == "slower"
    assert check_answer(stored(times(0.5))).verdict == "faster"


def test_against_a_stored_run_no_budget_shows_what_occasions_hide() -> None:
    record = stored(times(1.0), limit=0.05)
    answer = check_answer(record)
    assert (answer.verdict, answer.settles_s) == ("inconclusive", None)
    assert "with --against" in sentence(record, answer)


def test_what_differs_between_the_occasions_is_said() -> None:
    then = make_environment()
    now = then.model_copy(update={"versions": then.versions | {"keras": "3.16.0"}, "usable_cores": 2})
    assert differences(then, then) == ()
    assert differences(then, now) == (
        "Other versions: keras 3.15.0 then, 3.16.0 now.",
        "Other settings: usable cores 4 then, 2 now.",
    )
    assert "does not say on which machine" in differences(None, now)[0]


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ({8: times(1.2)},
         "Slower: the step takes 1.2 (1.19 to 1.21) times as long as in commit 1a2b3c4d5e at batch 8."),
        ({8: times(1.0), 64: times(1.2)}, "Slower: the step takes 1.1 ("),
        ({8: times(1.0), 64: times(1.0), 128: times(1.0), 512: times(1.09)},
         "Slower than in commit 1a2b3c4d5e: the step takes 1.09 (1.08 to 1.1) times as long at batch 512."),
        ({8: times(1.0), 64: times(1.0)}, "more than 5 % is excluded at both batch sizes."),
        ({8: times(0.9)}, "Faster: the step takes 0.9 ("),
        ({8: times(1.0, 10)}, "5 % slower is neither shown nor excluded. A budget"),
        ({8: (2.0,)}, "no interval. A budget of about"),
        ({8: tuple(1.04999 * np.array(SIX))}, "too near to the limit"),
    ],
)  # fmt: skip
def test_sentences(ratios: dict[int, tuple[float, ...]], words: str) -> None:
    record = made(ratios)
    assert words in sentence(record, check_answer(record))


def test_text_and_markdown_hold_the_same_and_no_markup_from_outside() -> None:
    record = made({8: times(1.0), 64: times(1.0)})
    warning = Warning(code="x", text="A <b>name</b> | with *marks* @someone")
    record = record.model_copy(update={"run": record.run.model_copy(update={"warnings": (warning,)})})
    answer = check_answer(record)
    text, markdown = check_text(record, answer), check_markdown(record, answer)
    assert text.splitlines()[0] == sentence(record, answer)
    assert "<b>name</b> | with" in text
    assert f"- {in_markdown(warning.text)}" in markdown
    assert "<b>" not in markdown.replace("\\<b>", "")
    assert markdown.startswith("### Not slower:")
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert [row.split("|")[1].strip() for row in rows] == ["batch", "---", "8", "64", "all"]
    assert notes(record) == (warning.text,)


def test_batches_that_are_checked_by_themselves() -> None:
    assert usual_batches({1: 0.5, 64: 2.0, 1024: 40.0}, 60.0) == (1, 64)
    assert usual_batches({1: 0.5, 64: 2.0, 1024: 40.0}, 600.0) == (1, 1024)
    assert usual_batches({16: 400.0, 32: 800.0}, 60.0) == (16,)


def test_what_a_stored_run_says_of_processes() -> None:
    run = make_run(processes=4)
    steps = stored_steps(run, 0)
    assert {len(values) for values in steps.values()} == {4}
    assert median_steps(run, 0)[1] == pytest.approx(np.median(steps[1]), rel=0.05)
    assert stored_steps(make_run(processes=2), 0) == {}
    with pytest.raises(UserError, match="no batch in"):
        check_batches((), stored_steps(make_run(processes=2), 0))
    with pytest.raises(UserError, match="Batch 3 was"):
        check_batches((3,), steps)


def test_a_check_has_one_baseline() -> None:
    with pytest.raises(ValueError, match="a stored run"):
        check_plan(sides=(NEW,))
