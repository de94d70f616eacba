"""Clear batches, credible changes of the faster target, and the agreement of verdict and table."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.analysis.statistics import Array
from core.rounds.answer.analyse import speed_ups
from core.rounds.answer.answer import Machine, SpeedUp, Verdict
from core.rounds.answer.crossover import (
    Curve,
    bend_of,
    build_curve,
    changes_too_often,
    clear_sides,
    curve_of,
    find_crossings,
)
from core.rounds.answer.verdict import Pair, decide
from simulated.replicates import observed

PAIR = Pair(("first", "second"), ("first", "second"))


def curve(centers: Sequence[float], own: float = 0.05) -> Curve:
    """Return a curve at batches 1, 2, 4, … whose own intervals are ±``own`` and whose joint ones are twice as wide."""
    count = len(centers)
    return curve_of(
        np.arange(count, dtype=float),
        np.array(centers),
        lambda alpha: np.full(count, own if alpha == 0.05 else 2 * own),
        np.ones(count, dtype=bool),
    )


def verdict_of(found: Curve) -> Verdict:
    return decide(found, PAIR, 0.05, (), Machine())


def replicates(centers: Sequence[float], scatter: float, starts: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.array(centers) + rng.normal(0, scatter, (starts, len(centers)))


def test_a_batch_is_clear_with_all_others_together() -> None:
    lone = clear_sides(np.array([0.0, 0.08, 0.0]), np.full(3, 0.1), np.full(3, 0.05))
    assert lone.tolist() == [0, 0, 0], "clear by itself alone is the best of many"
    assert clear_sides(np.array([0.0, 0.12, 0.0]), np.full(3, 0.1), np.full(3, 0.05)).tolist() == [0, 1, 0]


def test_from_a_clear_batch_its_side_reaches_on_until_a_batch_is_not_clear_by_itself() -> None:
    centers = np.array([0.08, 0.01, 0.08, 0.08, 0.12, 0.08, -0.08, 0.08])
    assert clear_sides(centers, np.full(8, 0.1), np.full(8, 0.05)).tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


def test_a_joint_interval_is_that_of_as_many_batches_as_have_one() -> None:
    table = observed(2.0 ** np.arange(5), replicates([0.2] * 5, 0.03, 6, 1))
    found = build_curve(table).at_batches()
    own, joint = table.estimate.half_width(table.alpha), table.estimate.half_width(table.alpha / 5)
    assert found.high - found.center == pytest.approx(joint)
    assert found.own_high - found.center == pytest.approx(own)


def test_each_look_demands_more() -> None:
    values = replicates([0.2] * 5, 0.03, 6, 1)
    first, third = (build_curve(observed(2.0 ** np.arange(5), values, looks=looks)) for looks in (1, 3))
    assert (third.high - third.low > first.high - first.low).all()


@pytest.mark.parametrize(
    ("sides", "too_often"),
    [
        ([1, 0, -1], False),
        ([1, -1, 1], False),
        ([1, -1, 1, -1], True),
        ([1, 1, -1, -1, 1, 1, -1, -1], False),
        ([1, 0, 1, -1, -1, 1, 1, -1, 0, -1], False),
        ([1, 1, -1, -1, 1, -1, -1], True),
        ([1, 1, -1, -1, 1, 1, -1], True),
    ],
)
def test_a_third_change_needs_two_clear_batches_on_every_side(sides: list[int], too_often: bool) -> None:
    found = curve([0.3 * side for side in sides])
    assert found.clear.tolist() == sides
    assert changes_too_often(found.clear) is too_often
    changes = len([side for side, after in zip(filled(sides), filled(sides)[1:], strict=False) if side != after])
    assert len(find_crossings(found)) == (0 if too_often else changes)
    verdict = verdict_of(found)
    assert (verdict.reason == "many_changes") is too_often
    assert bool(verdict.claims) is not too_often


def filled(sides: Sequence[int]) -> list[int]:
    return [side for side in sides if side]


def test_a_crossover_lies_between_clear_batches_and_its_interval_holds_all_that_are_not() -> None:
    found = curve([-0.3, -0.02, 0.02, 0.3])
    (crossing,) = find_crossings(found)
    assert 0 < crossing.low < 1
    assert 1 < crossing.x < 2
    assert 2 < crossing.high < 3


@pytest.mark.parametrize(
    ("centers", "reason", "words"),
    [
        ([0.3, 0.3, 0.01, 0.02], "straddles_at_largest", "Not clear above batch 2; up to it second is faster."),
        ([0.01, -0.02, -0.3, -0.3], "straddles_at_smallest", "First is faster from batch 4 on; below that it is not"),
        ([0.3, 0.0, 0.0, 0.3, 0.0, 0.3], "straddles_within", "Second is faster at batch 1, 8 and 32; elsewhere it is"),
        ([0.0, 0.3, 0.3, 0.0], "straddles_within", "Second is faster at batch 2 to 4; elsewhere it is not clear."),
    ],
)
def test_a_sentence_about_a_part_names_the_part(centers: list[float], reason: str, words: str) -> None:
    verdict = verdict_of(curve(centers))
    assert (verdict.kind, verdict.reason) == ("inconclusive", reason)
    assert verdict.sentence.startswith(words)


def test_a_crossover_names_the_batches_beyond_it_that_are_not_clear() -> None:
    verdict = verdict_of(curve([0.0, -0.3, -0.3, 0.3, 0.3, 0.01, 0.3, 0.0]))
    assert verdict.kind == "crossover"
    assert "32 and 128." in verdict.sentence
    assert "Not clear" not in verdict_of(curve([-0.3, -0.3, 0.3, 0.3])).sentence


def said_at(verdict: Verdict, batch: int) -> int | None:
    """Return the side that the sentence gives a batch, +1 for the second target; None if it gives none."""
    text = verdict.sentence.replace(",", "")
    side = 1 if "econd is faster" in text else -1
    first, last = 0.0, math.inf
    if verdict.kind == "ahead":
        return 1 if verdict.ahead == "second" else -1
    if verdict.reason == "straddles_at_largest":
        last = float(re.search(r"above batch (\d+)", text)[1])
    elif verdict.reason == "straddles_at_smallest":
        first = float(re.search(r"from batch (\d+)", text)[1])
    elif verdict.reason == "straddles_within":
        return side if batch in listed(re.search(r"at batch (.*); elsewhere", text)[1]) else None
    elif verdict.kind == "crossover":
        if (doubtful := re.search(r"Not clear at batch (.*)\.", text)) and batch in listed(doubtful[1]):
            return None
        if any(c.low <= batch <= c.high for c in verdict.crossovers):
            return None
        passed = [c.ahead_after for c in verdict.crossovers if c.batch < batch]
        last_ahead = passed[-1] if passed else {"first": "second", "second": "first"}[verdict.crossovers[0].ahead_after]
        return 1 if last_ahead == "second" else -1
    else:
        return None
    return side if first <= batch <= last else None


def listed(text: str) -> set[int]:
    """Return the powers of two among ``1 to 4 8 and 32``."""
    parts = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {2**i for i in range(12) for first, last in parts if int(first) <= 2**i <= int(last or first)}


def parity_excluded(each: SpeedUp) -> int:
    """Return the side of a speed-up whose interval excludes parity, else 0."""
    if each.low is None or each.low <= 1 <= each.high:
        return 0
    return 1 if each.low > 1 else -1


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([-0.3, -0.1, -0.04, 0.0, 0.04, 0.1, 0.3]), min_size=1, max_size=9),
    st.sampled_from([0.005, 0.02, 0.05]),
    st.integers(1, 6),
    st.integers(0, 10**6),
)
def test_a_verdict_agrees_with_every_speed_up_whose_interval_excludes_parity(
    centers: list[float], scatter: float, starts: int, seed: int
) -> None:
    table = observed(2.0 ** np.arange(len(centers)), replicates(centers, scatter, starts, seed))
    found = build_curve(table)
    verdict = verdict_of(found)
    excluding = {each.batch: side for each in speed_ups(found, table.counts) if (side := parity_excluded(each))}
    if verdict.reason == "many_changes":
        assert len(excluding) >= 4
        return
    assert {batch: said_at(verdict, batch) for batch in excluding} == excluding
    if not verdict.claims:
        assert not excluding


@pytest.mark.parametrize(("gap", "bend"), [(1.0, 0.0), (2.0, 0.12), (3.0, 0.27)])
def test_gaps_wider_than_an_octave_may_hide_a_knee(gap: float, bend: float) -> None:
    x = gap * np.arange(3.0)
    assert bend_of(x, np.zeros(3), x[:1] + gap / 2) == pytest.approx([bend])
