"""How small a difference of two targets a run shows, from the same intervals that its verdict rests on. Pure."""

from __future__ import annotations

import math
from statistics import median

from core.analysis.longer import round_time_s
from core.numbers import duration, percent
from core.studies.sweep.crossover import build_curve
from core.studies.sweep.observations import observe
from core.studies.sweep.record import Run

CLOSE = "close other programs"


def half_widths(run: Run) -> dict[int, float]:
    """Return half of the 95 % interval of the log-ratio of the first two targets by batch; infinite for none."""
    seen = observe(run)
    if len(seen.batches) == 0:
        return {}
    at = build_curve(seen).at_batches()
    halves = [half if math.isfinite(half) else math.inf for half in ((at.high - at.low) / 2).tolist()]
    return {round(batch): half for batch, half in zip(seen.batches.tolist(), halves, strict=True)}


def shown_from(run: Run) -> float | None:
    """Return the difference, 0.05 being 5 %, from which on half of the batches show one; None without intervals."""
    halves = half_widths(run).values()
    middle = median(halves) if halves else math.inf
    return math.expm1(middle) if math.isfinite(middle) else None


def resolution_words(elapsed_s: float, shown: float, wanted: float, disturbed: bool) -> str:
    """Return what a run of so many seconds shows, and what to do where differences that are ``wanted`` do not.

    An interval narrows with the root of the time, by which the time that is named follows.
    """
    says = f"in {duration(elapsed_s)} this machine shows differences from {percent(shown)} on"
    needed_s = elapsed_s * (math.log1p(shown) / math.log1p(wanted)) ** 2
    longer_s = round_time_s(lambda seconds: seconds >= needed_s)
    if shown <= wanted:
        return says
    ways = [CLOSE] if disturbed or longer_s is None else []
    ways += [] if longer_s is None else [f"measure for {duration(longer_s)}"]
    return f"{says}; {' or '.join(ways)}"
