"""Verdict that the curve of log-ratios supports, as a code and as a sentence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.numerics import runs
from core.base.evidence import MAX_TARGETS, Warning
from core.base.numbers import number, percent, rounded
from core.base.text import sentence_case
from core.rounds.answer.answer import Answer, Band, Boundary, CellStats, Crossover, Fastest, Fit, Lead, Machine, Verdict
from core.rounds.answer.crossover import Crossing, Curve, changes_too_often, find_crossings, find_lead
from core.rounds.answer.reliability import distinct, disturbances, few_processes
from core.rounds.run import Run
from core.workload.names import all_of, are, one_of
from core.workload.spec import MAX_BATCH, MIN_BATCH

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
    decided = _decided(curve, pair, margin, machine)
    if curve.has_interval:
        sentence = decided.sentence + holds_for(machine, decided=bool(decided.claims))
    else:
        sentence = without_interval(curve, pair, machine.starts_ended)
    return dataclasses.replace(decided, sentence=sentence_case(sentence), warnings=warnings, machine=machine)


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
    crossovers = tuple(Crossover(*c.batches, pair.targets[int(c.rising)]) for c in crossings)
    return Verdict(
        kind="crossover",
        targets=pair.targets,
        crossovers=crossovers,
        lead=_lead(curve, pair, margin, pair.targets.index(crossovers[-1].ahead_after)),
        reason="sign_change" if curve.has_interval else "sign_change_without_replicates",
        sentence=_changes(curve, crossovers, pair) if curve.has_interval else "",
        next_batch=_between(curve, crossovers),
    )


def _changes(curve: Curve, crossovers: tuple[Crossover, ...], pair: Pair) -> str:
    """Describe change by change which target is faster from which batch on, with intervals."""
    parts = []
    for change in crossovers:
        name, low, high = pair.name_of(change.ahead_after), change.low, change.high
        assert low is not None
        assert high is not None
        parts.append(
            f"{name} {are(name)} faster from batch {rounded(change.batch)}, "
            f"95 % interval {rounded(low)} to {rounded(high)}"
        )
    before = pair.names[1 - pair.targets.index(crossovers[0].ahead_after)]
    below = "that" if len(crossovers) == 1 else f"batch {rounded(crossovers[0].batch)}"
    return f"{'; then '.join(parts)}. Below {below} {before} {are(before)} faster.{_exceptions(curve, crossovers)}"


def _exceptions(curve: Curve, crossovers: tuple[Crossover, ...]) -> str:
    """Return the batches outside the crossovers' intervals at which neither target is clear, as a sentence."""
    at = curve.at_batches()
    batches = 2.0**at.x
    between = [(batches >= (c.low or c.batch)) & (batches <= (c.high or c.batch)) for c in crossovers]
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


def _between(curve: Curve, crossovers: tuple[Crossover, ...]) -> int | None:
    """Return the untried batch that splits the gap around the least certain crossover."""

    def spread(c: Crossover) -> float:
        return math.inf if c.low is None or c.high is None else c.high / c.low

    widest = max(crossovers, key=spread)
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
        reason, statement = (
            "straddles_at_largest",
            (f"Not clear above batch {rounded(batches[doubtful[0] - 1])}; up to it {name} {are(name)} faster."),
        )
        next_batch = round(min(MAX_BATCH, 2 * batches[-1])) if batches[-1] < MAX_BATCH else next_batch
    elif doubtful[-1] == size - 1:
        reason, statement = (
            "straddles_at_smallest",
            (f"{name} {are(name)} faster from batch {rounded(batches[size])} on; below that it is not clear."),
        )
        next_batch = round(max(MIN_BATCH, batches[0] / 2)) if batches[0] > MIN_BATCH else next_batch
    else:
        reason, statement = (
            "straddles_within",
            (f"{name} {are(name)} faster at {batch_words(at, at.clear != 0)}; elsewhere it is not clear."),
        )
    return Verdict(
        kind="inconclusive",
        targets=pair.targets,
        lead=_lead(curve, pair, margin, winner),
        reason=reason,
        sentence=statement,
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


def single_verdict(run: Run, fit: Fit | None, cells: tuple[CellStats, ...]) -> Verdict:
    """Return the verdict on the run's only target from its ``fit`` and ``cells``."""
    reason, sentence = _said(run, fit, cells)
    return Verdict(
        kind="single",
        targets=run.target_names,
        reason=reason,
        sentence=sentence_case(sentence),
        warnings=distinct(
            (*run.warnings, *few_processes(run), *disturbances([item.interference for item in run.rounds]))
        ),
        next_batch=_next(fit, cells),
    )


def _said(run: Run, fit: Fit | None, cells: tuple[CellStats, ...]) -> tuple[str, str]:
    name = run.names[0]
    if fit is None:
        count = f"{len(cells)} batch size" + ("" if len(cells) == 1 else "s")
        return "too_few_batches", f"{name}: {count} measured; fixed cost and cost per sample take three."
    if not fit.trusted:
        return "not_trusted", f"{name}: no fixed cost and cost per sample to rely on. {fit.note}"
    if fit.floor_low_ms is None or fit.floor_high_ms is None or fit.slope_low_ms is None or fit.slope_high_ms is None:
        return "no_interval", f"{name}: step times too few or too scattered for a fixed cost and a cost per sample."
    floor = _with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms)
    return "floor_and_slope", f"{name}: each step has a fixed cost of {floor}."


def sample_line(answer: Answer) -> str:
    """Say what each sample of the only target costs, and which share of a step is fixed; empty where nothing is known.

    It stands below the verdict, whose one number is the fixed cost.
    """
    fit = answer.fits[0]
    if (
        answer.verdict.reason != "floor_and_slope"
        or fit is None
        or fit.slope_low_ms is None
        or fit.slope_high_ms is None
    ):
        return ""
    slope = _with_bounds(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms)
    ends = (answer.cells[0].batch, answer.cells[-1].batch)
    shares = [share for batch in ends if (share := _share(fit, batch)) is not None]
    of_step = f" Of a step, {' and '.join(shares)} is fixed cost." if shares else ""
    return f"Each sample adds {slope}.{of_step}"


def _with_bounds(ms: float, low_ms: float, high_ms: float) -> str:
    scale, unit = (1.0, "ms") if ms >= 0.1 else (1000.0, "µs")
    return f"{number(scale * ms)} {unit} (95 % interval {number(scale * low_ms)} to {number(scale * high_ms)})"


def _share(fit: Fit, batch: int) -> str | None:
    if (bounds := fit.overhead_bounds(batch)) is None:
        return None
    share, low, high = (percent(value, 1)[:-2] for value in (fit.overhead_share(batch), *bounds))
    interval = "its whole interval too" if low == high else f"{low} to {high}"
    return f"{share} % at batch {batch:,} ({interval})"


def _next(fit: Fit | None, cells: tuple[CellStats, ...]) -> int | None:
    """Return a batch beyond the end that the fit lacks: larger if all is floor, smaller if all is work."""
    if fit is None or not cells:
        return None
    first, last = cells[0].batch, cells[-1].batch
    if fit.overhead_share(last) > 0.5 and last < MAX_BATCH:
        return min(MAX_BATCH, 2 * last)
    return max(MIN_BATCH, first // 2) if fit.overhead_share(first) < 0.2 and first > MIN_BATCH else None


def fastest_verdict(
    run: Run, ranking: Fastest, margin: float, warnings: tuple[Warning, ...], machine: Machine
) -> Verdict:
    """Return the verdict on three or more targets; ``margin`` is the one that defined a tie."""
    decided = any(len(band.targets) == 1 for band in ranking.bands)
    text = sentence(run, ranking, margin, machine.starts_ended)
    text += holds_for(machine, decided) if ranking.has_interval else ""
    named = len(ranking.bands) == 1 and len(ranking.bands[0].targets) == 1
    return Verdict(
        kind="fastest",
        targets=run.target_names,
        ahead=run.target_names[ranking.bands[0].targets[0]] if named else None,
        reason=_reason(ranking, machine.unstable),
        sentence=sentence_case(text),
        warnings=warnings,
        machine=machine,
        next_batch=_next_batch(run, ranking),
    )


def _reason(ranking: Fastest, unstable: bool) -> str:
    if not ranking.bands:
        return "no_common_batch"
    singles = sum(len(band.targets) == 1 for band in ranking.bands)
    without = "" if ranking.has_interval else "_without_replicates"
    if singles == 0:
        level = all(band.level for band in ranking.bands)
        return "within_margin" if level else "unstable_machine" if unstable else "not_distinguishable"
    if len(ranking.bands) == 1:
        return f"fastest_throughout{without}"
    return ("bands" if singles == len(ranking.bands) else "bands_in_part") + without


def sentence(run: Run, ranking: Fastest, margin: float, starts_ended: bool = True) -> str:
    """Return ``CPU is the fastest up to batch 12 (95 % interval 9 to 15); GPU 0 from 12 on``."""
    if not ranking.bands:
        return f"Not clear: {all_of(run.names)} share no measured batch size."
    if not ranking.has_interval:
        return _without_interval(run, ranking, starts_ended)
    return f"{'; '.join(bands_words(run.names, ranking, margin))}."


def bands_words(names: Sequence[str], ranking: Fastest, margin: float, what: str = "fastest") -> list[str]:
    """Describe each band in words that continue those of the one before."""
    edges = [None, *ranking.boundaries, None]
    return [
        band_words(names, band, margin, before, after, first=not i, what=what)
        for i, (band, before, after) in enumerate(zip(ranking.bands, edges, edges[1:], strict=False))
    ]


def _without_interval(run: Run, ranking: Fastest, starts_ended: bool) -> str:
    first, last = ranking.bands[0].from_batch, ranking.bands[-1].to_batch
    batches = np.array([batch for batch in run.batches if first * 0.99 <= batch <= last * 1.01], dtype=float)
    lowest = [next(band.targets[0] for band in ranking.bands if batch <= band.to_batch * 1.01) for batch in batches]
    return lowest_words(run.names, np.array(lowest), batches, starts_ended)


def band_words(
    names: Sequence[str],
    band: Band,
    margin: float,
    before: Boundary | None,
    after: Boundary | None,
    *,
    first: bool,
    what: str = "fastest",
) -> str:
    """Describe a band, with the interval of its upper boundary. ``first``: no band was described before it. More than
    six candidates are machines, and are counted.
    """
    where = where_words(band, before, after, first)
    own = [names[target] for target in band.targets]
    many = f"{len(own):,} machines" if len(own) > MAX_TARGETS else ""
    if len(own) > 1 and band.level:
        return f"{many or all_of(own)} are within {percent(margin)} of each other {where}"
    doubt = "not clear whether " if len(own) > 1 else ""
    who = f"not clear which of {many}" if many else f"{doubt}{one_of(own)}"
    verb = "is" if many else are(own[-1])
    return f"{who} {f'{verb} the {what} ' if first or before is None else ''}{where}"


def where_words(band: Band, before: Boundary | None, after: Boundary | None, spell: bool) -> str:
    """Return ``up to batch 12 (95 % interval 9 to 15)``; ``spell`` writes out what the brackets hold."""
    bounds = ""
    if after is not None and after.low is not None and after.high is not None:
        bounds = f" ({'95 % interval ' if spell else ''}{rounded(after.low)} to {rounded(after.high)})"
    start, stop = rounded(band.from_batch), rounded(band.to_batch)
    if before is None and after is None:
        return f"from batch {start} to {stop}" if start != stop else f"at batch {start}"
    if before is None:
        return f"up to batch {stop}{bounds}"
    return f"from {start} on" if after is None else f"from {start} to {stop}{bounds}"


def _next_batch(run: Run, ranking: Fastest) -> int | None:
    """Return a batch inside the widest interval of a boundary; else inside the longest unclear band, or beyond it if it
    lies at an end of the range.
    """
    measured = np.array(run.batches, dtype=float)
    known = [b for b in ranking.boundaries if b.low is not None and b.high is not None]
    for boundary in sorted(known, key=lambda b: -math.log((b.high or 1) / (b.low or 1))):
        if (batch := splitting(measured, boundary.low or boundary.batch, boundary.high or boundary.batch)) is not None:
            return batch
    open_bands = [band for band in ranking.bands if len(band.targets) > 1 and not band.level]
    if not open_bands:
        return next((splitting(measured, b.batch, b.batch) for b in ranking.boundaries if b.low is None), None)
    band = max(open_bands, key=lambda b: b.to_batch / b.from_batch)
    if len(ranking.bands) > 1 and band is ranking.bands[-1] and measured[-1] < MAX_BATCH:
        return round(min(MAX_BATCH, 2 * measured[-1]))
    if len(ranking.bands) > 1 and band is ranking.bands[0] and measured[0] > MIN_BATCH:
        return round(max(MIN_BATCH, measured[0] / 2))
    return splitting(measured, band.from_batch, band.to_batch)
