"""Selection and clipping of one step's events for drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.traces.events import NONE, Line
from core.traces.intervals import EMPTY, Spans, holds, merged
from core.traces.partition import PS_PER_MS, Host, Operations, encloses
from core.traces.record import MAX_SPANS, PARTS, Part, Span
from core.traces.trace_names import EAGER, Kind


class Rows(NamedTuple):
    """Events of one lane: indices of their names, indices of their parts in PARTS, begins and ends in picoseconds."""

    lane: str
    names: NDArray[np.int32]
    parts: NDArray[np.int8]
    spans: Spans


def timeline(rows: Iterable[Rows], texts: tuple[str, ...], begin: int, end: int) -> tuple[tuple[Span, ...], int]:
    """Return the rows as spans of the step [begin, end), at most the ``MAX_SPANS`` longest, and the number left out.

    An event that reaches far beyond the step is cut one step's length before and after it.
    """
    low, high = begin - (end - begin), end + (end - begin)
    lanes = list(rows)
    every = np.concatenate([EMPTY, *(lane.spans for lane in lanes)])
    longest = np.argsort(every[:, 0] - every[:, 1], kind="stable")[:MAX_SPANS]
    lane_of = np.repeat(np.arange(len(lanes)), [len(lane.spans) for lane in lanes])[longest].tolist()
    names, parts = (np.concatenate([(), *column])[longest].astype(int).tolist()
                    for column in ([lane.names for lane in lanes], [lane.parts for lane in lanes]))  # fmt: skip
    chosen = zip((lanes[i].lane for i in lane_of), names, parts, *every[longest].T.tolist(), strict=True)
    spans = tuple(
        Span(
            lane=lane,
            name=texts[name].removeprefix(EAGER),
            part=PARTS[part],
            start_ms=(max(first, low) - begin) / PS_PER_MS,
            length_ms=(min(last, high) - max(first, low)) / PS_PER_MS,
        )
        for lane, name, part, first, last in sorted(chosen, key=lambda row: (row[0], row[3]))
    )
    return spans, len(every) - len(longest)


def stream_rows(streams: Iterable[Line], parts: NDArray[np.int8], begin: int, end: int) -> Iterator[Rows]:
    """Yield the events of a GPU's streams that touch [begin, end); ``parts`` holds the part of each name."""
    for line in streams:
        spans = line.events.spans
        shown = _touching(spans, begin, end)
        names = line.events.name[shown]
        yield Rows(line.name, names, parts[names], spans[shown])


def host_rows(
    host: Host, kinds: NDArray[np.int8], begin: int, end: int, operations: Iterable[Operations] = ()
) -> Iterator[Rows]:
    """Yield the host's activity in [begin, end): the given operations as compute, then input, then launch.

    Launch is drawn as it is counted, each event without those that run inside it.
    """
    computed = {id(item.line): item for item in operations}
    lanes = _lanes(host.lines)
    for line in host.lines:
        lane, item = lanes[id(line)], computed.get(id(line))
        events = line.events.take(_touching(line.events.spans, begin, end))
        kind = kinds[events.name]
        is_input = kind == Kind.INPUT
        drawn = merged(events.spans[is_input])
        outermost = is_input & np.isin(events.start_ps, drawn[:, 0]) & _first_of_start(events.start_ps)
        yield _rows(lane, "input", events.name[outermost], events.spans[outermost])
        if item is not None:
            shown = _touching(item.spans, begin, end)
            yield _rows(lane, "compute", item.name[shown], item.spans[shown])
            drawn = merged(drawn, item.spans[shown])
        taken = merged(drawn, events.spans[kind == Kind.WAIT])
        busy = (events.step == NONE) & (kind != Kind.END) & ~encloses(events.spans, host.steps)
        inner = busy & np.append(events.start_ps[1:] >= events.end_ps[:-1], True)[: len(events)]
        inner &= ~holds(taken, events.start_ps)
        first, around = _outermost(events.spans, np.flatnonzero(busy & ~inner))
        outer, spans = _without(first, around, taken)
        shown = _touching(spans, begin, end)
        yield _rows(lane, "launch", events.name[outer[shown]], spans[shown])  # below the events that run inside them
        yield _rows(lane, "launch", events.name[inner], events.spans[inner])


def _outermost(spans: Spans, among: NDArray[np.int64]) -> tuple[NDArray[np.int64], Spans]:
    """Merge nested spans: return the outermost of the selected spans, extended to the end of all that begin in them.

    The spans are sorted by begin; the first result holds the indices of the outermost ones.
    """
    reach = np.maximum.accumulate(spans[among, 1])
    first = np.concatenate([[True], spans[among[1:], 0] >= reach[:-1]])[: len(among)]
    last = np.concatenate([first[1:], [True]])[: len(among)]
    return among[first], np.stack([spans[among[first], 0], reach[last]], axis=1)


def _without(owners: NDArray[np.int64], pieces: Spans, taken: Spans) -> tuple[NDArray[np.int64], Spans]:
    """Return the parts of disjoint, sorted pieces outside the merged spans, each with its owner."""
    edges = np.unique(np.concatenate([pieces.ravel(), taken.ravel()]))
    parts = np.stack([edges[:-1], edges[1:]], axis=1)
    index = np.searchsorted(pieces[:, 0], parts[:, 0], side="right") - 1
    kept = (index >= 0) & ~holds(taken, parts[:, 0])
    kept[kept] = parts[kept, 0] < pieces[index[kept], 1]
    return owners[index[kept]], parts[kept]


def _touching(spans: Spans, begin: int, end: int) -> NDArray[np.bool_]:
    return np.asarray((spans[:, 0] < end) & (spans[:, 1] > begin) & (spans[:, 1] > spans[:, 0]))


def _rows(lane: str, part: Part, names: NDArray[np.int32], spans: Spans) -> Rows:
    return Rows(lane, names, np.full(len(names), PARTS.index(part), dtype=np.int8), spans)


def _first_of_start(start_ps: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.concatenate([[True], start_ps[1:] != start_ps[:-1]])[: len(start_ps)]


def _lanes(lines: Iterable[Line]) -> dict[int, str]:
    """Return names for threads: their own without the id, numbered if several are the same."""
    lines = tuple(lines)
    bases = [line.name.rpartition("/")[0] or line.name or "thread" for line in lines]
    several, seen = Counter(bases), Counter[str]()
    lanes = {}
    for line, base in zip(lines, bases, strict=True):
        seen[base] += 1
        lanes[id(line)] = f"{base} {seen[base]}" if several[base] > 1 else base
    return lanes
