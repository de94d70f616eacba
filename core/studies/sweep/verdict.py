"""What the curve of log-ratios allows us to say, as a code and as a sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.numerics import runs
from core.evidence import Warning
from core.names import all_of, are
from core.numbers import number, percent, rounded
from core.spec import MAX_BATCH, MIN_BATCH
from core.studies.sweep.answer import Crossover, Lead, Verdict
from core.studies.sweep.crossover import Crossing, Curve, find_crossings, find_lead
from core.text import sentence_case


@dataclass(frozen=True)
class Pair:
    """Two targets in their notation, and as people read them."""

    targets: tuple[str, str]
    names: tuple[str, str]

    def name_of(self, target: str) -> str:
        return self.names[self.targets.index(target)]


def decide(curve: Curve, pair: Pair, margin: float, warnings: tuple[Warning, ...], unstable: bool) -> Verdict:
    """Verdict for a curve of log(t_first / t_second); ``unstable`` marks a machine whose processes disagree."""
    found = _decided(curve, pair, margin, unstable)
    sentence = found.sentence if curve.has_interval else without_interval(curve, pair)
    return dataclasses.replace(found, sentence=sentence_case(sentence), warnings=warnings)


def without_interval(curve: Curve, pair: Pair) -> str:
    """What is said where nothing can be claimed: whose step time was the lower one at which batches."""
    at = curve.at_batches()
    return lowest_words(pair.names, (at.center > 0).astype(int), 2.0**at.x)


def lowest_words(names: Sequence[str], lowest: np.ndarray, batches: np.ndarray) -> str:
    """The number of the target with the lowest step time, by rising batch, in words; no claim without replicates."""
    stretches, parts = runs(lowest), []
    for place, (start, stop) in enumerate(stretches):
        first, last = rounded(batches[start]), rounded(batches[stop - 1])
        where = f"at batch {first}" if first == last else f"from batch {first} to {last}"
        if len(stretches) > 1 and place == 0:
            where = f"up to batch {last}"
        elif len(stretches) > 1 and place == len(stretches) - 1:
            where = f"from batch {first} on"
        parts.append(f"of {names[lowest[start]]} {where}")
    return f"No verdict: one value a batch size gives no interval. The lowest step time is that {all_of(parts)}."


def _decided(curve: Curve, pair: Pair, margin: float, unstable: bool) -> Verdict:
    crossings = find_crossings(curve)
    if crossings:
        return _crossover(curve, crossings, pair, margin)
    signs, level = _sides(curve, margin)
    if (signs == signs[0]).all() and signs[0] != 0:
        return _ahead(curve, pair, margin, winner=int(signs[0] > 0))
    if level.all():
        return _tie(curve, pair, margin)
    return _inconclusive(curve, signs, pair, margin, unstable)


def _sides(curve: Curve, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """For each measured batch: +1 where the second target is faster (pointwise 95 %), −1 the first, 0 not clear; and
    whether both bounds are within the margin.
    """
    at = curve.at_batches()
    if not curve.has_interval:
        return np.sign(at.center).astype(int), np.abs(at.center) <= math.log1p(margin)
    signs = np.where(at.low > 0, 1, np.where(at.high < 0, -1, 0))
    return signs, (at.low >= -math.log1p(margin)) & (at.high <= math.log1p(margin))


def _lead(curve: Curve, pair: Pair, margin: float, winner: int) -> Lead | None:
    lead = find_lead(curve if winner == 1 else curve.mirrored(), math.log1p(margin))
    return None if lead is None else Lead(pair.targets[winner], margin, *lead.batches)


def _crossover(curve: Curve, crossings: tuple[Crossing, ...], pair: Pair, margin: float) -> Verdict:
    found = tuple(Crossover(*c.batches, pair.targets[int(c.rising)]) for c in crossings)
    return Verdict(
        kind="crossover",
        targets=pair.targets,
        crossovers=found,
        lead=_lead(curve, pair, margin, pair.targets.index(found[-1].ahead_after)),
        reason="sign_change" if curve.has_interval else "sign_change_without_replicates",
        sentence=_changes(found, pair) if curve.has_interval else "",
        next_batch=_between(curve, found),
    )


def _changes(found: tuple[Crossover, ...], pair: Pair) -> str:
    """From which batch on who is faster, change by change; each has its interval."""
    parts = []
    for change in found:
        name, low, high = pair.name_of(change.ahead_after), change.low, change.high
        assert low is not None
        assert high is not None
        parts.append(
            f"{name} {are(name)} faster from batch {rounded(change.batch)}, "
            f"95 % interval {rounded(low)} to {rounded(high)}"
        )
    before = pair.names[1 - pair.targets.index(found[0].ahead_after)]
    below = "that" if len(found) == 1 else f"batch {rounded(found[0].batch)}"
    return f"{'; then '.join(parts)}. Below {below} {before} {are(before)} faster."


def _between(curve: Curve, found: tuple[Crossover, ...]) -> int | None:
    """The untried batch around the least certain crossover."""

    def spread(c: Crossover) -> float:
        return math.inf if c.low is None or c.high is None else c.high / c.low

    widest = max(found, key=spread)
    return splitting(2.0 ** curve.at_batches().x, widest.low or widest.batch, widest.high or widest.batch)


def splitting(measured: np.ndarray, low: float, high: float) -> int | None:
    """The untried batch that splits the widest gap between measured batches around ``low`` to ``high``, if any."""
    start = max(0, int(np.searchsorted(measured, low, side="right")) - 1)
    stop = min(len(measured) - 1, int(np.searchsorted(measured, high, side="left")))
    gaps = [(measured[i + 1] / measured[i], i) for i in range(start, stop)]
    tried = {round(b) for b in measured}
    for _, i in sorted(gaps, reverse=True):
        middle = round(math.sqrt(measured[i] * measured[i + 1]))
        if middle not in tried:
            return middle
    return None


def _ahead(curve: Curve, pair: Pair, margin: float, winner: int) -> Verdict:
    at = curve.at_batches()
    return Verdict(
        kind="ahead",
        targets=pair.targets,
        ahead=pair.targets[winner],
        lead=_lead(curve, pair, margin, winner),
        reason="ahead_throughout" if curve.has_interval else "ahead_throughout_without_replicates",
        sentence=_throughout(at if winner == 1 else at.mirrored(), pair.names[winner]) if curve.has_interval else "",
        next_batch=_towards_crossing(at),
    )


def _throughout(at: Curve, faster: str) -> str:
    """How many times ``faster`` is faster at the smallest and at the largest batch, with the intervals there."""
    ends = [rounded(float(2.0**x)) for x in (at.x[0], at.x[-1])]
    ratio, low, high = (np.exp(values) for values in (at.center, at.low, at.high))
    first = f"{number(ratio[0])}× (95 % interval {number(low[0])} to {number(high[0])}) at batch {ends[0]}"
    if len(at.x) == 1:
        return f"{faster} {are(faster)} faster: {first}."
    last = f"{number(ratio[-1])}× ({number(low[-1])} to {number(high[-1])}) at batch {ends[1]}"
    return f"{faster} {are(faster)} faster at every batch size measured: {first}, {last}; no crossover in this range."


def _towards_crossing(at: Curve) -> int | None:
    """The batch beyond the end at which the difference shrinks; None where neither end closes in."""
    if len(at.x) < 2:
        return None
    size = np.abs(at.center)
    first, last = 2.0 ** at.x[0], 2.0 ** at.x[-1]
    if size[-1] <= size[0]:
        return round(min(MAX_BATCH, last * 2)) if last < MAX_BATCH else None
    return round(max(MIN_BATCH, first / 2)) if first > MIN_BATCH else None


def _tie(curve: Curve, pair: Pair, margin: float) -> Verdict:
    return Verdict(
        kind="tie",
        targets=pair.targets,
        reason="within_margin" if curve.has_interval else "equal_without_replicates",
        sentence=f"A tie: {pair.names[0]} and {pair.names[1]} are within {percent(margin)} of each other at every "
        "batch size measured.",
    )


def _inconclusive(curve: Curve, signs: np.ndarray, pair: Pair, margin: float, unstable: bool) -> Verdict:
    at = curve.at_batches()
    undecided = np.flatnonzero(signs == 0)
    known = set(signs.tolist()) - {0}
    winner: int | None = None
    if unstable:
        reason, said = "unstable_machine", "Not clear: the machine was too unsteady, separate worker processes disagree"
    elif not known:
        reason, said = "straddles", "Not clear which target is faster, at any batch size measured"
    elif len(known) == 2:
        reason, said = "weak_sign_change", "Not clear where the faster target changes; it probably does in this range"
    else:
        winner = int(known.pop() > 0)
        reason, said = _one_sided(at, undecided, pair.names[winner])
    return Verdict(
        kind="inconclusive",
        targets=pair.targets,
        lead=None if winner is None else _lead(curve, pair, margin, winner),
        reason=reason,
        sentence=f"{said}.",
        next_batch=_worth_measuring(at, undecided, reason),
    )


def _one_sided(at: Curve, undecided: np.ndarray, winner: str) -> tuple[str, str]:
    batches = 2.0**at.x
    if (undecided == np.arange(len(at.x) - len(undecided), len(at.x))).all():
        return (
            "straddles_at_largest",
            f"Not clear above batch {rounded(batches[undecided[0] - 1])}; up to it {winner} {are(winner)} faster",
        )
    if (undecided == np.arange(len(undecided))).all():
        return "straddles_at_smallest", (
            f"Not clear below batch {rounded(batches[undecided[-1] + 1])}; from it on {winner} {are(winner)} faster"
        )
    share = "most" if 2 * len(undecided) < len(at.x) else "some"
    return "straddles_within", f"Not clear at every batch size; {winner} {are(winner)} faster at {share} of them"


def _worth_measuring(at: Curve, undecided: np.ndarray, reason: str) -> int | None:
    batches = 2.0**at.x
    if reason == "straddles_at_largest" and batches[-1] < MAX_BATCH:
        return round(min(MAX_BATCH, 2 * batches[-1]))
    if reason == "straddles_at_smallest" and batches[0] > MIN_BATCH:
        return round(max(MIN_BATCH, batches[0] / 2))
    if len(undecided) == 0:
        return None
    widths = (at.high - at.low)[undecided]
    return round(batches[undecided[int(np.argmax(np.nan_to_num(widths, posinf=1e9)))]])
