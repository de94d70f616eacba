"""Sentences of a fleet run. Names of machines are others' text: no sentence begins with one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.evidence import MAX_TARGETS
from core.names import all_of
from core.numbers import counted
from core.studies.sweep.answer import Against, Band, Boundary, Fastest, SpeedUp
from core.studies.sweep.baseline import ahead_words
from core.studies.sweep.verdict import lowest_words
from core.studies.sweep.verdict_fastest import bands_words, where_words

SHOWN_BANDS, SHOWN_NAMES = 6, 4
UNPAIRED = (
    "The machines are compared unpaired: the variances of both add up, so that intervals are wider than those of two "
    "targets in one run, and what disturbed a machine during its whole run is not in them."
)


def headline(names: Sequence[str], found: Fastest, margin: float, batches: Sequence[int], has_interval: bool) -> str:
    """Describe in one sentence which machine is the fastest at which batch."""
    if not has_interval:
        lowest = [next(b.targets[0] for b in found.bands if batch <= b.to_batch * 1.01) for batch in batches]
        return lowest_words(names, np.array(lowest), np.array(batches, dtype=float))
    found = _joined(found)
    _, *parts = bands_words(names, found, margin)
    first, edge = found.bands[0], found.boundaries[0] if found.boundaries else None
    where = where_words(first, None, edge, spell=True)
    who = f"The fastest machine is {names[first.targets[0]]} {where}"
    if len(first.targets) > 1:
        what = "A tie" if first.level else "Not clear which machine is the fastest"
        who = f"{what} {where}: {band_label(names, first)}"
    more = len(parts) + 1 - SHOWN_BANDS
    said = [*parts[: SHOWN_BANDS - 1], f"{counted(more, 'more band')} above that"] if more > 0 else parts
    return f"{'; '.join([who, *said])}."


def _joined(found: Fastest) -> Fastest:
    """Merge neighbouring bands of many machines: that other dozens may be the fastest is no news."""
    bands, edges = [found.bands[0]], list[Boundary]()
    for band, edge in zip(found.bands[1:], found.boundaries, strict=True):
        last = bands[-1]
        if all(len(one.targets) > MAX_TARGETS and not one.level for one in (last, band)):
            bands[-1] = Band(last.from_batch, band.to_batch, tuple(sorted({*last.targets, *band.targets})))
        else:
            bands.append(band)
            edges.append(edge)
    return Fastest(tuple(bands), tuple(edges))


def faster_words(one: Against | None) -> str:
    """Describe for a table where a machine beats the baseline machine: ``from 41 (32 to 50)``, ``throughout``,
    ``nowhere``, ``a tie``; ``clear from 64 on`` without a crossover with an interval.
    """
    if one is None:
        return ""
    words = ahead_words(one)
    return words if words != "not clear" else _where_clear(one.speed_ups)


def _where_clear(speed_ups: Sequence[SpeedUp]) -> str:
    faster = [i for i, found in enumerate(speed_ups) if found.low is not None and found.low > 1]
    slower = [i for i, found in enumerate(speed_ups) if found.high is not None and found.high < 1]
    if not faster:
        return "nowhere clear" if slower else "not clear"
    if faster == list(range(faster[0], len(speed_ups))):
        return f"clear from {speed_ups[faster[0]].batch:,} on"
    if faster == list(range(len(faster))):
        return f"clear up to {speed_ups[faster[-1]].batch:,}"
    return f"clear at {len(faster)} of {counted(len(speed_ups), 'batch size')}"


def band_label(names: Sequence[str], band: Band) -> str:
    """Return the machines of a band, counted if they are many."""
    own = [names[machine] for machine in band.targets]
    return all_of(own) if len(own) <= SHOWN_NAMES else f"{len(own):,} machines"
