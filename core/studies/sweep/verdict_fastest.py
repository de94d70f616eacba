"""Verdict on three or more targets from their bands, as a code and as a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from core.evidence import MAX_TARGETS, Warning
from core.names import all_of, are, one_of
from core.numbers import percent, rounded
from core.spec import MAX_BATCH, MIN_BATCH
from core.studies.sweep.answer import Band, Boundary, Fastest, Machine, Verdict
from core.studies.sweep.record import Run
from core.studies.sweep.verdict import holds_for, lowest_words, splitting
from core.text import sentence_case


def fastest_verdict(
    run: Run, found: Fastest, margin: float, warnings: tuple[Warning, ...], machine: Machine
) -> Verdict:
    """Return the verdict on three or more targets; ``margin`` is the one that defined a tie."""
    decided = any(len(band.targets) == 1 for band in found.bands)
    text = sentence(run, found, margin, machine.starts_ended)
    text += holds_for(machine, decided) if found.has_interval else ""
    named = len(found.bands) == 1 and len(found.bands[0].targets) == 1
    return Verdict(
        kind="fastest",
        targets=run.target_names,
        ahead=run.target_names[found.bands[0].targets[0]] if named else None,
        reason=_reason(found, machine.unstable),
        sentence=sentence_case(text),
        warnings=warnings,
        machine=machine,
        next_batch=_next(run, found),
    )


def _reason(found: Fastest, unstable: bool) -> str:
    if not found.bands:
        return "no_common_batch"
    singles = sum(len(band.targets) == 1 for band in found.bands)
    without = "" if found.has_interval else "_without_replicates"
    if singles == 0:
        level = all(band.level for band in found.bands)
        return "within_margin" if level else "unstable_machine" if unstable else "not_distinguishable"
    if len(found.bands) == 1:
        return f"fastest_throughout{without}"
    return ("bands" if singles == len(found.bands) else "bands_in_part") + without


def sentence(run: Run, found: Fastest, margin: float, starts_ended: bool = True) -> str:
    """Return ``CPU is the fastest up to batch 12 (95 % interval 9 to 15); GPU 0 from 12 on``."""
    if not found.bands:
        return f"Not clear: {all_of(run.names)} share no measured batch size."
    if not found.has_interval:
        return _without_interval(run, found, starts_ended)
    return f"{'; '.join(bands_words(run.names, found, margin))}."


def bands_words(names: Sequence[str], found: Fastest, margin: float, what: str = "fastest") -> list[str]:
    """Describe each band in words that continue those of the one before."""
    edges = [None, *found.boundaries, None]
    return [
        band_words(names, band, margin, before, after, first=not i, what=what)
        for i, (band, before, after) in enumerate(zip(found.bands, edges, edges[1:], strict=False))
    ]


def _without_interval(run: Run, found: Fastest, starts_ended: bool) -> str:
    first, last = found.bands[0].from_batch, found.bands[-1].to_batch
    batches = np.array([batch for batch in run.batches if first * 0.99 <= batch <= last * 1.01], dtype=float)
    lowest = [next(band.targets[0] for band in found.bands if batch <= band.to_batch * 1.01) for batch in batches]
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


def _next(run: Run, found: Fastest) -> int | None:
    """Return a batch inside the widest interval of a boundary; else inside the longest unclear band, or beyond it if it
    lies at an end of the range.
    """
    measured = np.array(run.batches, dtype=float)
    known = [b for b in found.boundaries if b.low is not None and b.high is not None]
    for boundary in sorted(known, key=lambda b: -math.log((b.high or 1) / (b.low or 1))):
        if (batch := splitting(measured, boundary.low or boundary.batch, boundary.high or boundary.batch)) is not None:
            return batch
    open_bands = [band for band in found.bands if len(band.targets) > 1 and not band.level]
    if not open_bands:
        return next((splitting(measured, b.batch, b.batch) for b in found.boundaries if b.low is None), None)
    band = max(open_bands, key=lambda b: b.to_batch / b.from_batch)
    if len(found.bands) > 1 and band is found.bands[-1] and measured[-1] < MAX_BATCH:
        return round(min(MAX_BATCH, 2 * measured[-1]))
    if len(found.bands) > 1 and band is found.bands[0] and measured[0] > MIN_BATCH:
        return round(max(MIN_BATCH, measured[0] / 2))
    return splitting(measured, band.from_batch, band.to_batch)
