"""Verdict that the curve of log-ratios supports, as a code and as a sentence."""

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
from core.studies.sweep.answer import Crossover, Lead, Machine, Verdict
from core.studies.sweep.crossover import Crossing, Curve, changes_too_often, find_crossings, find_lead
from core.text import sentence_case

NO_CLAIM_YET = "No claim yet: that takes three starts of the workers"
UNSTABLE = "Not clear: the machine was too unsteady, separate starts of the workers disagree."
TOO_MANY_CHANGES = (
    "Not clear: the faster target seems to change more than twice, and not each time with two clear batch sizes on "
    "either side."
)


@dataclass(frozen=True)
class Pair:
    """Two targets in their notation, and as people read them."""

    targets: tuple[str, str]
    names: tuple[str, str]

    def name_of(self, target: str) -> str:
        return self.names[self.targets.index(target)]


def decide(curve: Curve, pair: Pair, margin: float, warnings: tuple[Warning, ...], machine: Machine) -> Verdict:
    """Return the verdict for a curve of log(t_first / t_second)."""
    found = _decided(curve, pair, margin, machine)
    if curve.has_interval:
        sentence = found.sentence + holds_for(machine, decided=bool(found.claims))
    else:
        sentence = without_interval(curve, pair, machine.starts_ended)
    return dataclasses.replace(found, sentence=sentence_case(sentence), warnings=warnings, machine=machine)


def holds_for(machine: Machine, decided: bool) -> str:
    """Return the limits of a verdict on a disturbed machine, as a sentence to follow it; empty for a quiet one."""
    if machine.quiet:
        return ""
    cores = "" if machine.others_cores is None else f" that used {machine.others_cores:.1f} cores"
    if decided:
        return f" This holds beside other programs{cores}, not for a quiet machine."
    return f" Most rounds were disturbed by other programs{cores}."


def without_interval(curve: Curve, pair: Pair, starts_ended: bool) -> str:
    """Describe which step time was lower at which batches, if nothing can be claimed."""
    at = curve.at_batches()
    return lowest_words(pair.names, (at.center > 0).astype(int), 2.0**at.x, starts_ended)


def lowest_words(names: Sequence[str], lowest: np.ndarray, batches: np.ndarray, starts_ended: bool = True) -> str:
    """Describe the target with the lowest step time (its number by rising batch); this claims nothing."""
    stretches, parts = runs(lowest), []
    for place, (start, stop) in enumerate(stretches):
        first, last = rounded(batches[start]), rounded(batches[stop - 1])
        where = f"at batch {first}" if first == last else f"from batch {first} to {last}"
        if len(stretches) > 1 and place == 0:
            where = f"up to batch {last}"
        elif len(stretches) > 1 and place == len(stretches) - 1:
            where = f"from batch {first} on"
        parts.append(f"of {names[lowest[start]]} {where}")
    why = "No verdict: one value per batch size gives no interval" if starts_ended else NO_CLAIM_YET
    return f"{why}. The lowest step time is that {all_of(parts)}."


def _decided(curve: Curve, pair: Pair, margin: float, machine: Machine) -> Verdict:
    at = curve.at_batches()
    if curve.has_interval and changes_too_often(at.clear):
        return _inconclusive(at, pair, "many_changes", TOO_MANY_CHANGES)
    if crossings := find_crossings(curve):
        return _crossover(curve, crossings, pair, margin)
    if at.clear.all() and (at.clear == at.clear[0]).all():
        return _ahead(curve, pair, margin, winner=int(at.clear[0] > 0))
    if at.clear.any():
        return _ahead_in_part(curve, pair, margin, winner=int(at.clear.sum() > 0))
    level = math.log1p(margin)
    if ((at.own_low >= -level) & (at.own_high <= level)).all():
        return _tie(pair, margin)
    if machine.unstable:
        return _inconclusive(at, pair, "unstable_machine", UNSTABLE)
    return _inconclusive(at, pair, "straddles", "Not clear which target is faster, at any batch size measured.")


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
        sentence=_changes(curve, found, pair) if curve.has_interval else "",
        next_batch=_between(curve, found),
    )


def _changes(curve: Curve, found: tuple[Crossover, ...], pair: Pair) -> str:
    """Describe change by change which target is faster from which batch on, with intervals."""
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
    return f"{'; then '.join(parts)}. Below {below} {before} {are(before)} faster.{_exceptions(curve, found)}"


def _exceptions(curve: Curve, found: tuple[Crossover, ...]) -> str:
    """Return the batches outside the crossovers' intervals at which neither target is clear, as a sentence."""
    at = curve.at_batches()
    batches = 2.0**at.x
    between = [(batches >= (c.low or c.batch)) & (batches <= (c.high or c.batch)) for c in found]
    doubtful = (at.clear == 0) & ~np.any(between, axis=0)
    return f" Not clear at {batch_words(at, doubtful)}." if doubtful.any() else ""


def batch_words(at: Curve, chosen: np.ndarray) -> str:
    """Return the chosen ones of a curve's batches, neighbours as a range: ``batch 1 to 4 and 1,024``."""
    batches, parts = 2.0**at.x, []
    for start, stop in runs(chosen):
        if chosen[start]:
            first, last = rounded(batches[start]), rounded(batches[stop - 1])
            parts.append(first if first == last else f"{first} to {last}")
    return f"batch {all_of(parts)}"


def _between(curve: Curve, found: tuple[Crossover, ...]) -> int | None:
    """Return the untried batch that splits the gap around the least certain crossover."""

    def spread(c: Crossover) -> float:
        return math.inf if c.low is None or c.high is None else c.high / c.low

    widest = max(found, key=spread)
    return splitting(2.0 ** curve.at_batches().x, widest.low or widest.batch, widest.high or widest.batch)


def splitting(measured: np.ndarray, low: float, high: float) -> int | None:
    """Return the untried batch that splits the widest gap between measured batches around ``low`` to ``high``."""
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
    """Describe how many times ``faster`` is faster at the smallest and the largest batch, with the intervals there."""
    ends = [rounded(float(2.0**x)) for x in (at.x[0], at.x[-1])]
    ratio, low, high = (np.exp(values) for values in (at.center, at.low, at.high))
    first = f"{number(ratio[0])}× (95 % interval {number(low[0])} to {number(high[0])}) at batch {ends[0]}"
    if len(at.x) == 1:
        return f"{faster} {are(faster)} faster: {first}."
    last = f"{number(ratio[-1])}× ({number(low[-1])} to {number(high[-1])}) at batch {ends[1]}"
    return f"{faster} {are(faster)} faster at every batch size measured: {first}, {last}; no crossover in this range."


def _towards_crossing(at: Curve) -> int | None:
    """Return the batch beyond the end at which the difference shrinks; None if there is none."""
    if len(at.x) < 2:
        return None
    size = np.abs(at.center)
    first, last = 2.0 ** at.x[0], 2.0 ** at.x[-1]
    if size[-1] <= size[0]:
        return round(min(MAX_BATCH, last * 2)) if last < MAX_BATCH else None
    return round(max(MIN_BATCH, first / 2)) if first > MIN_BATCH else None


def _ahead_in_part(curve: Curve, pair: Pair, margin: float, winner: int) -> Verdict:
    """Return the verdict if one target is clearly ahead at some batches and neither at the others."""
    at, name = curve.at_batches(), pair.names[winner]
    batches, doubtful = 2.0**at.x, np.flatnonzero(at.clear == 0)
    measured, size = len(at.x), len(doubtful)
    next_batch = round(batches[doubtful[int(np.argmax((at.high - at.low)[doubtful]))]])
    if doubtful[0] == measured - size:
        reason, said = (
            "straddles_at_largest",
            (f"Not clear above batch {rounded(batches[doubtful[0] - 1])}; up to it {name} {are(name)} faster."),
        )
        next_batch = round(min(MAX_BATCH, 2 * batches[-1])) if batches[-1] < MAX_BATCH else next_batch
    elif doubtful[-1] == size - 1:
        reason, said = (
            "straddles_at_smallest",
            (f"{name} {are(name)} faster from batch {rounded(batches[size])} on; below that it is not clear."),
        )
        next_batch = round(max(MIN_BATCH, batches[0] / 2)) if batches[0] > MIN_BATCH else next_batch
    else:
        reason, said = (
            "straddles_within",
            (f"{name} {are(name)} faster at {batch_words(at, at.clear != 0)}; elsewhere it is not clear."),
        )
    return Verdict(
        kind="inconclusive",
        targets=pair.targets,
        lead=_lead(curve, pair, margin, winner),
        reason=reason,
        sentence=said,
        next_batch=next_batch,
    )


def _tie(pair: Pair, margin: float) -> Verdict:
    return Verdict(
        kind="tie",
        targets=pair.targets,
        reason="within_margin",
        sentence=f"A tie: {pair.names[0]} and {pair.names[1]} are within {percent(margin)} of each other at every "
        "batch size measured.",
    )


def _inconclusive(at: Curve, pair: Pair, reason: str, sentence: str) -> Verdict:
    widths = np.nan_to_num(at.high - at.low, posinf=1e9)
    return Verdict(
        kind="inconclusive",
        targets=pair.targets,
        reason=reason,
        sentence=sentence,
        next_batch=round(2.0 ** at.x[int(np.argmax(widths))]),
    )
