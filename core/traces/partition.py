"""Attribution of each instant of a traced step to one part.

The steps of a device tile time; in a step each instant goes to the first part of :data:`core.traces.record.PARTS` that
is active then, so the parts sum to the step exactly. Activity is defined as follows:

- **A GPU**: its streams' events are compute and copies (:func:`~core.traces.trace_names.device_part`). A step is the
  trace's own (line ``Steps``); or it runs from the first device event launched in an annotated host step, found by
  correlation ids, to the first one launched in the next, the last one to the end of the work it launched; or it is
  the whole trace. *Launch* is any other activity of the host: driver calls, executor, Python bindings; but not
  waiting for the device, the step's annotation, events that enclose it, or the threads on which ``tf.data``
  prepares batches.
- **The CPU**, if no GPU did any work: a step runs from one annotation to the next, the last one to its own end.
  Compute is the union of operations on all threads. In an XLA program these are its ``hlo_op`` events, up to their
  ``end:`` event if other threads finish them; in eager mode, which traces no operation, the run of its kernel
  with the small cost of starting it. Operations that only pass tensors on are not compute. Everything that is
  neither compute nor input is the framework's work: launch.
- *Input*, on both: operations that take the next element (``IteratorGetNext`` and its kin), including the wait.

xprof does the same sweep with some differences (``event_span.cc``, ``xplane_to_step_events.cc``): there, host-to-device
copies rank below input and launch; events are matched to steps by group ids, not by time, and an event without one is
left out; launch is only events with a correlation id, and ``ExecutorState::Process``; host computation beside a GPU is
a separate part, which here is launch; and a step inside the host's annotation takes the host's length.

``Spans`` is an int64 array of shape (n, 2). *Merged* spans are sorted, disjoint, non-adjacent and non-empty; functions
that need them say so. Sums are exact while times stay below 2⁶².
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.traces.events import NONE, Events, Line, Trace, TraceError, joined
from core.traces.record import MAX_STEPS, PARTS, Part, StepParts
from core.traces.trace_names import Kind, is_host, is_producer

Spans = NDArray[np.int64]
EMPTY: Spans = np.empty((0, 2), dtype=np.int64)


def merged(*several: Spans) -> Spans:
    """Return the union of all spans, merged; empty and reversed ones are ignored."""
    spans = np.concatenate([EMPTY, *several])
    spans = spans[spans[:, 1] > spans[:, 0]]
    if not len(spans):
        return EMPTY
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.concatenate([[True], spans[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([spans[first, 0], reach[last]], axis=1)


def subtract(spans: Spans, taken: Spans) -> Spans:
    """Return the parts of merged spans outside other merged spans; merged."""
    if not len(spans) or not len(taken):
        return spans
    low, high = min(spans[0, 0], taken[0, 0]), max(spans[-1, 1], taken[-1, 1])
    gaps = np.stack([np.concatenate([[low], taken[:, 1]]), np.concatenate([taken[:, 0], [high]])], axis=1)
    return intersect(spans, gaps[gaps[:, 1] > gaps[:, 0]])


def intersect(first: Spans, second: Spans) -> Spans:
    """Return the intersection of two merged spans; merged."""
    if not len(first) or not len(second):
        return EMPTY
    edges = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    pieces = np.stack([edges[:-1], edges[1:]], axis=1)
    return merged(pieces[holds(first, pieces[:, 0]) & holds(second, pieces[:, 0])])


def holds(spans: Spans, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the moments that lie in merged spans, shape of ``at``."""
    if not len(spans):
        return np.zeros(len(at), dtype=np.bool_)
    index = np.searchsorted(spans[:, 0], at, side="right") - 1
    return np.asarray((index >= 0) & (at < spans[index, 1]))


def covered(spans: Spans, windows: Spans) -> NDArray[np.int64]:
    """Return the length of each window covered by merged spans, shape (windows,)."""
    if not len(spans):
        return np.zeros(len(windows), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])

    def until(at: NDArray[np.int64]) -> NDArray[np.int64]:
        index = np.searchsorted(spans[:, 0], at, side="right")
        return np.asarray(before[index] - np.where(index > 0, np.maximum(spans[index - 1, 1] - at, 0), 0))

    return until(windows[:, 1]) - until(windows[:, 0])


def sweep(layers: Sequence[Spans], windows: Spans) -> NDArray[np.int64]:
    """Return each layer's share of each window, shape (layers + 1, windows); the last row is covered by no layer.

    Each instant goes to the first layer active at it, so a column sums to its window exactly. The layers need not be
    merged. A layer gets what it adds to the union of those before it: the boundary sweep of xprof (``event_span.cc``)
    without walking from boundary to boundary.
    """
    rows, union = [np.zeros(len(windows), dtype=np.int64)], EMPTY
    for layer in layers:
        union = merged(union, layer)
        rows.append(covered(union, windows))
    rows.append(windows[:, 1] - windows[:, 0])
    whole = np.stack(rows)
    return whole[1:] - whole[:-1]


PS_PER_MS = 1_000_000_000
StepsFrom = Literal["steps line", "host steps", "whole trace"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Begin and end of each step in picoseconds, shape (steps, 2), sorted and disjoint. Raises TraceError for too many.

    ``empty`` annotated steps started nothing on the device; ``by_time``: no ids tie its events to their launches.
    """

    spans: Spans
    source: StepsFrom
    empty: int = 0
    by_time: bool = False

    def __post_init__(self) -> None:
        if len(self.spans) > MAX_STEPS:
            raise TraceError(
                f"The trace holds {len(self.spans):,} steps; at most {MAX_STEPS:,} are accepted, and a handful is "
                "enough."
            )


@dataclass(frozen=True, eq=False)
class Host:
    """The host in a trace, with data shared by all devices computed once."""

    trace: Trace

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The host's threads without those that prepare data."""
        return tuple(line for line in self.trace.lines if is_host(line) and not is_producer(line))

    @cached_property
    def steps(self) -> Spans:
        """Begin and end of the annotated steps (events with a step number), from the thread that has most of them."""
        best = EMPTY
        for line in self.trace.lines:
            events = line.events
            spans = events.spans[(events.step != NONE) & (events.duration_ps > 0)] if is_host(line) else EMPTY
            if len(spans):
                reach = np.maximum.accumulate(spans[:, 1])
                spans = spans[np.concatenate([[True], spans[1:, 0] >= reach[:-1]])]  # drops nested steps
            best = spans if len(spans) > len(best) else best
        return best

    @cached_property
    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids and begins of the calls that launched something, sorted by id, then time."""
        lines = [line.events for line in self.trace.lines if is_host(line)]
        calls = joined(events.take((events.link != NONE) & ~events.computes) for events in lines)
        order = np.lexsort((calls.start_ps, calls.link))
        return calls.link[order], calls.start_ps[order]


@dataclass(frozen=True, eq=False)
class Operations:
    """Operations of one thread: their spans, shape (operations, 2), and the indices of their names."""

    line: Line
    spans: Spans
    name: NDArray[np.int32]


def step_parts(layers: Mapping[Part, Spans], steps: Spans) -> tuple[StepParts, ...]:
    """Return each step's parts; a part without a layer is zero, and ``other`` is the time no layer covers."""
    rows = sweep([layers.get(part, EMPTY) for part in PARTS[:-1]], steps) / PS_PER_MS
    lengths_ms = (steps[:, 1] - steps[:, 0]) / PS_PER_MS
    return tuple(
        StepParts(step_ms=length, **{f"{part}_ms": value for part, value in zip(PARTS, column, strict=True)})
        for length, column in zip(lengths_ms.tolist(), rows.T.tolist(), strict=True)
    )


def tiled(spans: Spans) -> Spans:
    """Extend each span to the begin of the next; the last keeps its own end."""
    return np.stack([spans[:, 0], np.concatenate([spans[1:, 0], spans[-1:, 1]])], axis=1)


def gpu_steps(host: Host, streams: Events, steps_line: Line | None) -> Steps:
    """Return the steps of a GPU with the events of all its streams (at least one)."""
    if steps_line is not None and (marked := _disjoint(steps_line.events.spans)) is not None:
        return Steps(marked, "steps line")
    annotated = host.steps
    if len(annotated):
        launched_ps, is_known = _launches(host, streams)
        usable = is_known & (launched_ps < int(annotated[-1, 1]))
        by_time = not usable.any()
        if by_time:
            launched_ps, usable = streams.start_ps, ~usable
        if (spans := _begun(annotated, launched_ps, usable, streams)) is not None:
            return Steps(spans, "host steps", empty=len(annotated) - len(spans), by_time=by_time)
    return _whole(streams.spans)


def cpu_steps(host: Host, operations: Spans) -> Steps:
    """Return the steps of the CPU, or the extent of all its operations if nothing marks steps."""
    return Steps(tiled(host.steps), "host steps") if len(host.steps) else _whole(operations)


def host_layers(host: Host, kinds: NDArray[np.int8]) -> tuple[Spans, Spans]:
    """Return the host's spans of taking the next element and of all other activity for the steps; both merged."""
    inputs, activity = [EMPTY], [EMPTY]
    for line in host.lines:
        kind, spans = kinds[line.events.name], line.events.spans
        inputs.append(spans[kind == Kind.INPUT])
        busy = merged(spans[(line.events.step == NONE) & ~encloses(spans, host.steps)])
        activity.append(subtract(busy, merged(spans[kind == Kind.WAIT])))
    return merged(*inputs), merged(*activity)


def cpu_operations(host: Host, kinds: NDArray[np.int8]) -> Iterator[Operations]:
    """Yield the CPU's compute operations, thread by thread."""
    lines = host.lines
    ends = joined([line.events.take(kinds[line.events.name] == Kind.END) for line in lines])
    named = any(line.events.computes.any() for line in lines)
    for line in lines:
        events, kind = line.events, kinds[line.events.name]
        computes = (kind == Kind.OP) & ~events.computes
        if not named:
            computes |= kind == Kind.THUNKS
        known = events.take(events.computes & (kind != Kind.BOOKKEEPING))
        plain, eager = events.take(computes), _eager(events, kind)
        spans = np.concatenate([plain.spans, eager[0], _until_end(known, ends)])
        yield Operations(line, spans, np.concatenate([plain.name, eager[1], known.name]))


def _whole(spans: Spans) -> Steps:
    span = np.array([[spans[:, 0].min(), spans[:, 1].max()]], dtype=np.int64)
    return Steps(span, "whole trace")


def _disjoint(spans: Spans) -> Spans | None:
    """Return sorted spans, each cut at the end of those before it; None if nothing is left."""
    reach = np.maximum.accumulate(spans[:, 1])
    begin = np.maximum(spans[:, 0], np.concatenate([spans[:1, 0], reach[:-1]]))
    cut = np.stack([begin, spans[:, 1]], axis=1)
    cut = cut[cut[:, 1] > cut[:, 0]]
    return cut if len(cut) else None


def _launches(host: Host, device: Events) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the launch time of each device event on the host, and a mask of known ones; shape (device events,)."""
    link, start = host.calls
    index = np.minimum(np.searchsorted(link, device.link), max(len(link) - 1, 0))
    if not len(link):
        return device.start_ps, np.zeros(len(device), dtype=np.bool_)
    return start[index], (link[index] == device.link) & (device.link != NONE)


def _begun(annotated: Spans, launched_ps: NDArray[np.int64], usable: NDArray[np.bool_], device: Events) -> Spans | None:
    """Return steps from the first device event of each host step to that of the next; None if none has any event."""
    step = np.searchsorted(annotated[:, 0], launched_ps, side="right") - 1
    usable = usable & (step >= 0)
    if not usable.any():
        return None
    far = np.iinfo(np.int64).max
    begin = np.full(len(annotated), far, dtype=np.int64)
    np.minimum.at(begin, step[usable], device.start_ps[usable])
    end = int(device.end_ps[usable].max())
    begin = begin[begin < min(far, end)]
    rising = np.concatenate([[True], begin[1:] > np.maximum.accumulate(begin)[:-1]])[: len(begin)]
    begin = begin[rising]
    if not len(begin):
        return None
    return np.stack([begin, np.concatenate([begin[1:], [end]])], axis=1)


def encloses(spans: Spans, steps: Spans) -> NDArray[np.bool_]:
    """Return a mask of spans that contain a whole annotated step: they concern the run, not one of its steps."""
    if not len(steps):
        return np.zeros(len(spans), dtype=np.bool_)
    index = np.searchsorted(steps[:, 0], spans[:, 0], side="left")
    inside = index < len(steps)
    return np.asarray(inside & (steps[np.minimum(index, len(steps) - 1), 1] <= spans[:, 1]))


def _eager(events: Events, kind: NDArray[np.int8]) -> tuple[Spans, NDArray[np.int32]]:
    """Return the runs of single kernels in eager mode, and the names of the operations around them."""
    around, runs = events.take(kind == Kind.EAGER), events.take(kind == Kind.RUN)
    if not len(around) or not len(runs):
        return EMPTY, np.empty(0, dtype=np.int32)
    index = np.searchsorted(around.start_ps, runs.start_ps, side="right") - 1
    inside = (index >= 0) & (runs.end_ps <= around.end_ps[index])
    traced = np.sort(events.start_ps[kind == Kind.OP])  # if the operation itself is traced, it counts instead
    inside &= np.searchsorted(traced, runs.start_ps) == np.searchsorted(traced, runs.end_ps)
    return runs.spans[inside], around.name[index[inside]]


def _until_end(operations: Events, ends: Events) -> Spans:
    """Extend spans of XLA operations to the begin of the next ``end:`` event with their id, if there is one."""
    spans = operations.spans
    if not len(spans) or not len(ends):
        return spans
    link = np.concatenate([operations.link, ends.link])
    start = np.concatenate([operations.start_ps, ends.start_ps])
    is_end = np.arange(len(link)) >= len(operations)
    order = np.lexsort((is_end, start, link))
    place = np.where(is_end[order], np.arange(len(order)), len(order) - 1)
    following = order[np.minimum.accumulate(place[::-1])[::-1]]
    mine = np.empty(len(order), dtype=np.int64)
    mine[order] = following
    mine = mine[: len(operations)]
    matches = is_end[mine] & (link[mine] == operations.link) & (operations.link != NONE)
    return np.stack([spans[:, 0], np.where(matches, np.maximum(spans[:, 1], start[mine]), spans[:, 1])], axis=1)
