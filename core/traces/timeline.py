"""The events of one step, chosen and cut for drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from core.traces.events import NONE, Line, Trace
from core.traces.intervals import Spans, holds, merged
from core.traces.partition import PS_PER_MS, Operations, host_lines
from core.traces.record import MAX_SPANS, Part, Span
from core.traces.trace_names import EAGER, Kind

Row = tuple[str, int, Part, int, int]
"""Lane, index of the name, part, begin and end in picoseconds."""


def timeline(rows: Iterable[Row], texts: tuple[str, ...], begin: int, end: int) -> tuple[tuple[Span, ...], int]:
    """The rows as spans of the step [begin, end), and how many were left out; the longest ``MAX_SPANS`` are kept.

    An event that reaches far beyond the step is cut one step's length before and after it.
    """
    low, high = begin - (end - begin), end + (end - begin)
    touching = list(rows)
    chosen = sorted(touching, key=lambda row: row[3] - row[4])[:MAX_SPANS]
    spans = tuple(
        Span(
            lane=lane,
            name=texts[name].removeprefix(EAGER),
            part=part,
            start_ms=(max(first, low) - begin) / PS_PER_MS,
            length_ms=(min(last, high) - max(first, low)) / PS_PER_MS,
        )
        for lane, name, part, first, last in sorted(chosen, key=lambda row: (row[0], row[3]))
    )
    return spans, len(touching) - len(chosen)


def stream_rows(streams: Iterable[tuple[Line, NDArray[np.object_]]], begin: int, end: int) -> Iterator[Row]:
    """The events of a GPU's streams that touch [begin, end); beside each stream stand the parts of its events."""
    for line, parts in streams:
        shown = _touching(line.events.spans, begin, end)
        events = line.events.take(shown)
        columns = (events.name, parts[shown], events.start_ps, events.end_ps)
        yield from zip([line.name] * len(events), *(column.tolist() for column in columns), strict=True)


def host_rows(
    trace: Trace, kinds: NDArray[np.int8], begin: int, end: int, operations: Iterable[Operations] = ()
) -> Iterator[Row]:
    """What the host did in [begin, end): the given operations as compute, input, and else the innermost events.

    Innermost, because those around them only say the same more coarsely.
    """
    computed = {id(item.line): item for item in operations}
    lanes = _lanes(host_lines(trace))
    for line in host_lines(trace):
        lane, item = lanes[id(line)], computed.get(id(line))
        events = line.events.take(_touching(line.events.spans, begin, end))
        kind = kinds[events.name]
        is_input = kind == Kind.INPUT
        drawn = merged(events.spans[is_input])
        outermost = is_input & np.isin(events.start_ps, drawn[:, 0]) & _first_of_start(events.start_ps)
        yield from _rows(lane, "input", events.name[outermost], events.spans[outermost])
        if item is not None:
            shown = _touching(item.spans, begin, end)
            yield from _rows(lane, "compute", item.name[shown], item.spans[shown])
            drawn = merged(drawn, item.spans[shown])
        launch = np.append(events.start_ps[1:] >= events.end_ps[:-1], True)[: len(events)]
        launch &= (events.step == NONE) & ~np.isin(kind, (Kind.WAIT, Kind.END)) & ~holds(drawn, events.start_ps)
        yield from _rows(lane, "launch", events.name[launch], events.spans[launch])


def _touching(spans: Spans, begin: int, end: int) -> NDArray[np.bool_]:
    return np.asarray((spans[:, 0] < end) & (spans[:, 1] > begin) & (spans[:, 1] > spans[:, 0]))


def _rows(lane: str, part: Part, names: NDArray[np.int32], spans: Spans) -> Iterator[Row]:
    for name, (begin, end) in zip(names.tolist(), spans.tolist(), strict=True):
        yield lane, name, part, begin, end


def _first_of_start(start_ps: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.concatenate([[True], start_ps[1:] != start_ps[:-1]])[: len(start_ps)]


def _lanes(lines: Iterable[Line]) -> dict[int, str]:
    """Names for threads: their own without the id, numbered where several have the same."""
    lines = tuple(lines)
    bases = [line.name.rpartition("/")[0] or line.name or "thread" for line in lines]
    several, seen = Counter(bases), Counter[str]()
    lanes = {}
    for line, base in zip(lines, bases, strict=True):
        seen[base] += 1
        lanes[id(line)] = f"{base} {seen[base]}" if several[base] > 1 else base
    return lanes
