"""Analysis of a trace: :func:`report`. :mod:`core.traces.partition` defines the division of a step."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.base.numbers import counted
from core.traces.events import NONE, Events, Line, Trace, TraceError, joined
from core.traces.partition import (
    EMPTY,
    PS_PER_MS,
    Host,
    Operations,
    Spans,
    Steps,
    covered,
    cpu_operations,
    cpu_steps,
    encloses,
    gpu_steps,
    holds,
    host_layers,
    merged,
    step_parts,
    tiled,
)
from core.traces.record import (
    MAX_HOST_OPS,
    MAX_KERNELS,
    MAX_SPANS,
    PARTS,
    DeviceTrace,
    HostOp,
    Kernel,
    Part,
    Span,
    TraceReport,
)
from core.traces.trace_names import EAGER, VIEWS, Kind, device_parts, expected, is_collective, is_host, kinds, operation
from core.traces.wire import NO_GPU, dropped_events, no_kernels
from core.workload.names import all_of


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
        outermost = (
            is_input
            & np.isin(events.start_ps, drawn[:, 0])
            & np.concatenate([[True], events.start_ps[1:] != events.start_ps[:-1]])[: len(events.start_ps)]
        )
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


_KINDS = (Kind.OP, Kind.BOOKKEEPING, Kind.INPUT)


def host_ops(
    host: Host, kinds: NDArray[np.int8], windows: Spans, copies: Events, host_nodes: frozenset[str] | None
) -> tuple[HostOp, ...]:
    """Return operations (``name:Type``) that began in the windows (merged) and launched nothing, costliest first.

    Launched nothing: no launch or copy call lies within them on their thread. With ``host_nodes``, the names of the
    nodes that the framework placed on the CPU, exactly those count; without, operations that may only make a view
    (slices) are left out. ``copies`` are the device's; a copy's bytes go to the operations named as its source or
    destination. Without such copies the moved bytes are unknown: the shapes in a trace are those of all inputs, even of
    those that never left the host.
    """
    texts = host.trace.texts
    count, total_ps = np.zeros(len(texts), dtype=np.int64), np.zeros(len(texts))  # float: exact up to 2⁵³, no overflow
    for line in host.lines:
        events = line.events
        calls = np.sort(events.start_ps[_is_launch(events, kinds)])
        chosen = np.isin(kinds[events.name], _KINDS) & ~events.computes & holds(windows, events.start_ps)
        if host_nodes is None:
            chosen &= np.searchsorted(calls, events.start_ps) == np.searchsorted(calls, events.end_ps)
        np.add.at(count, events.name[chosen], 1)
        np.add.at(total_ps, events.name[chosen], events.duration_ps[chosen])
    moved = _moved_bytes(host.trace, copies)
    found_ops = (
        _host_op(texts[name], int(count[name]), float(total_ps[name]), moved, host_nodes)
        for name in np.flatnonzero(count).tolist()
    )
    return tuple(sorted((op for op in found_ops if op is not None), key=lambda op: (-op.total_ms, op.name)))


def has_launches(trace: Trace, kinds: NDArray[np.int8]) -> bool:
    """Return True if the host's events show which of them launched work on a device."""
    return any(bool(_is_launch(line.events, kinds).any()) for line in trace.lines if is_host(line))


def retraces(trace: Trace, windows: Spans) -> int:
    """Count the ``tf.function`` calls that began in the windows (merged) and were traced again."""
    traced = np.array([text.startswith("traced") for text in trace.texts])
    lines = (line.events for line in trace.lines if is_host(line))
    return sum(int((traced[events.call] & holds(windows, events.start_ps)).sum()) for events in lines)


def _is_launch(events: Events, kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
    return np.asarray((events.link != NONE) & ~events.computes & (kinds[events.name] != Kind.END))


def _moved_bytes(trace: Trace, copies: Events) -> dict[str, int]:
    moved: dict[str, int] = defaultdict(int)
    known = copies.take(copies.size_bytes != NONE)
    for source, sink, size in zip(known.source.tolist(), known.sink.tolist(), known.size_bytes.tolist(), strict=True):
        for index in {source, sink} - {0}:
            moved[trace.texts[index]] += size
    return moved


def _host_op(
    text: str, count: int, total_ps: float, moved: dict[str, int], host_nodes: frozenset[str] | None
) -> HostOp | None:
    named = operation(text)
    if named is None:
        return None
    name, op_type = named
    if op_type in VIEWS if host_nodes is None else name not in host_nodes:
        return None
    why = expected(op_type)
    return HostOp(
        name=name,
        op_type=op_type,
        count=count,
        total_ms=total_ps / PS_PER_MS,
        expected=bool(why),
        why=why,
        moved_bytes=moved.get(name),
    )


_KERNEL = re.compile(r"nccl(Dev)?Kernel|nccl\w*(AllReduce|AllGather)")
_OPERATIONS = ("CollectiveReduce", "CollectiveGather")


def exchange_kernels(texts: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return a mask of the names of GPU kernels that exchange gradients, shape (texts,)."""
    return np.array([_KERNEL.match(text) is not None for text in texts], dtype=np.bool_)


def host_exchanges(host: Host) -> Spans:
    """Return the spans in which the CPU's logical devices exchanged gradients."""
    chosen = np.array([_exchanges(text) for text in host.trace.texts], dtype=np.bool_)
    return np.concatenate([EMPTY, *(line.events.spans[chosen[line.events.name]] for line in host.lines)])


def _exchanges(text: str) -> bool:
    named = operation(text)
    return is_collective(text) or (named is not None and named[1].startswith(_OPERATIONS))


def all_reduces_ms(exchanges: Spans, steps: Spans) -> tuple[float, ...]:
    """Return the time any of a device's ``exchanges`` ran in each step; empty if there are none."""
    return tuple((covered(merged(exchanges), steps) / PS_PER_MS).tolist()) if len(exchanges) else ()


COMPUTE = PARTS.index("compute")
GRAPH_LAUNCH = ("cuGraphLaunch", "cudaGraphLaunch")
ONE_BY_ONE = (
    "XLA runs its kernels one by one under the profiler; without it it may put them into CUDA graphs, so the gaps "
    "between launches are longer here than in an unprofiled step."
)
"""``xla_enable_command_buffers_during_profiling`` is off by default, and stays so: CUPTI slows the nodes of a graph,
too (and could crash on graphs before CUDA 12.6), and an XLA that does not know a flag ends the process."""


def report(
    trace: Trace, host_nodes: frozenset[str] | None = None, expected_devices: Collection[str] = ()
) -> TraceReport:
    """Return the devices with their steps' parts, kernels and a timeline, and operations on the host beside a GPU.

    Args:
        host_nodes: names of the nodes that the framework placed on the CPU, if known.
        asked: devices that the steps should have run on (``CPU``, ``GPU:1``), if known.

    Raises TraceError if no device did anything in the trace, or other devices did than asked.
    """
    host, kind, parts = Host(trace), kinds(trace.texts), device_parts(trace.texts)
    notes: list[str] = []
    gpus = _gpus(trace, parts, notes)
    dropped = dropped_events(trace.warnings)
    _check_devices(trace, gpus, expected_devices, dropped)
    notes += [f"The profiler says: {text}" for text in (*trace.errors, *trace.warnings) if gpus or NO_GPU not in text]
    if not gpus:
        device, windows = _cpu(host, kind, notes)
        return TraceReport(
            devices=(device,), retraces=retraces(trace, windows), dropped_events=dropped, notes=tuple(notes)
        )
    layers = host_layers(host, kind)
    gpu_devices = (_gpu(host, kind, parts, name, lines, layers, notes) for name, lines in gpus.items())
    devices, spans = zip(*gpu_devices, strict=True)
    windows = merged(tiled(host.steps)) if len(host.steps) else merged(*spans)
    return TraceReport(
        devices=devices,
        host_ops=_host_ops(host, kind, windows, gpus.values(), host_nodes, notes),
        retraces=retraces(trace, windows),
        dropped_events=dropped,
        notes=tuple(notes),
    )


def _check_devices(trace: Trace, gpus: Collection[str], expected_devices: Collection[str], dropped: int) -> None:
    """Raise TraceError if kernels ran on a GPU that was not asked for, or none on one that was."""
    if not expected_devices:
        return
    if others := sorted({*gpus} - {*expected_devices}):
        words = all_of([*expected_devices])
        raise TraceError(f"Kernels of the step ran on {', '.join(others)}, but it was to be traced on {words}.")
    if silent := [name for name in expected_devices if name != "CPU" and name not in gpus]:
        raise TraceError(no_kernels(silent[0], trace.errors, dropped))


def _gpus(trace: Trace, parts: NDArray[np.int8], notes: list[str]) -> dict[str, list[Line]]:
    """Return the lines of each GPU that ran a kernel."""
    planes: dict[str, list[Line]] = defaultdict(list)
    for line in trace.lines:
        if line.plane.startswith("/device:GPU:") and len(line.events):
            planes[line.plane.removeprefix("/device:")].append(line)
    used = {}
    for name, lines in planes.items():
        streams = [line for line in lines if line.name != "Steps"]
        if any(((parts[line.events.name] == COMPUTE) & (line.events.duration_ps > 0)).any() for line in streams):
            used[name] = lines
        elif copies := sum(len(line.events) for line in streams):
            notes.append(f"{name} ran no kernel, only {counted(copies, 'copy', 'copies')}; it is left out.")
    return used


def _gpu(
    host: Host,
    kind: NDArray[np.int8],
    part_of: NDArray[np.int8],
    name: str,
    lines: list[Line],
    layers: tuple[Spans, Spans],
    notes: list[str],
) -> tuple[DeviceTrace, Spans]:
    streams = [line for line in lines if line.name != "Steps"]
    everything = joined(line.events for line in streams)
    steps = gpu_steps(host, everything, next((line for line in lines if line.name == "Steps"), None))
    notes += _steps_notes(name, steps)
    graphs = any(text.startswith(GRAPH_LAUNCH) for text in host.trace.texts)
    if everything.computes.any() and not graphs and ONE_BY_ONE not in notes:
        notes.append(ONE_BY_ONE)
    parts, spans = part_of[everything.name], everything.spans
    copies: tuple[Part, ...] = ("d2h", "d2d", "h2d")
    kernels = (spans[parts == COMPUTE], everything.name[parts == COMPUTE])
    of_part: dict[Part, Spans] = {part: spans[parts == PARTS.index(part)] for part in copies}
    of_part |= {"compute": kernels[0], "input": layers[0], "launch": layers[1]}

    def rows(begin: int, end: int) -> list[Rows]:
        return [*stream_rows(streams, part_of, begin, end), *host_rows(host, kind, begin, end)]

    device = _device(host.trace, name, steps, of_part, kernels, rows, notes)
    inside = everything.take(holds(merged(steps.spans), everything.start_ps))
    moved = {f"{part}_bytes": copied_bytes(inside, part_of, part) for part in ("h2d", "d2h")}
    exchanges = kernels[0][exchange_kernels(host.trace.texts)[kernels[1]]]
    return device.model_copy(update={**moved, "all_reduces_ms": all_reduces_ms(exchanges, steps.spans)}), steps.spans


def copied_bytes(events: Events, part_of: NDArray[np.int8], part: Part) -> int | None:
    """Return the bytes carried by a device's copies in one direction; None if a copy lacks its size."""
    sizes = events.size_bytes[part_of[events.name] == PARTS.index(part)]
    return None if (sizes == NONE).any() else sum(sizes.tolist())


def _cpu(host: Host, kind: NDArray[np.int8], notes: list[str]) -> tuple[DeviceTrace, Spans]:
    operations, texts = list(cpu_operations(host, kind)), host.trace.texts
    computed = np.concatenate([item.spans for item in operations]) if operations else merged()
    names = np.concatenate([item.name for item in operations]) if operations else np.empty(0, dtype=np.int32)
    if not (computed[:, 1] > computed[:, 0]).any():
        raise TraceError("The trace shows no kernel of a GPU and no operation of the CPU; record it while steps run.")
    steps = cpu_steps(host, computed)
    notes += _steps_notes("CPU", steps)
    if any(texts[name].startswith(EAGER) for name in np.unique(names).tolist()):
        notes.append("Eager operations are traced with the cost of starting them, so compute is at most what is shown.")
    # on a CPU the rest of a step is the framework's own work, or waiting for a thread: launch
    layers: dict[Part, Spans] = {"compute": computed, "input": host_layers(host, kind)[0], "launch": steps.spans}

    def rows(begin: int, end: int) -> list[Rows]:
        return list(host_rows(host, kind, begin, end, operations))

    device = _device(host.trace, "CPU", steps, layers, (computed, names), rows, notes)
    exchanges_ms = all_reduces_ms(host_exchanges(host), steps.spans)
    return device.model_copy(update={"all_reduces_ms": exchanges_ms}), merged(steps.spans)


def _device(
    trace: Trace,
    name: str,
    steps: Steps,
    layers: dict[Part, Spans],
    kernels: tuple[Spans, NDArray[np.int32]],
    rows: Callable[[int, int], list[Rows]],
    notes: list[str],
) -> DeviceTrace:
    parts = step_parts(layers, steps.spans)
    inside = holds(merged(steps.spans), kernels[0][:, 0])
    median = sorted(range(len(parts)), key=lambda index: parts[index].step_ms)[(len(parts) - 1) // 2]
    begin, end = steps.spans[median].tolist()
    shown, left_out = timeline(rows(begin, end), trace.texts, begin, end)
    if left_out:
        notes.append(f"The timeline of {name} shows the {len(shown):,} longest of {len(shown) + left_out:,} events.")
    return DeviceTrace(
        device=name,
        steps=parts,
        kernels=int(inside.sum()),
        busy_ms=int(covered(merged(kernels[0]), steps.spans).sum()) / PS_PER_MS,
        span_ms=int(steps.spans[-1, 1] - steps.spans[0, 0]) / PS_PER_MS,
        steps_from=steps.source,
        top=_top(trace, kernels[0][inside], kernels[1][inside]),
        timeline=shown,
    )


def _top(trace: Trace, spans: Spans, names: NDArray[np.int32]) -> tuple[Kernel, ...]:
    unique, index, counts = np.unique(names, return_inverse=True, return_counts=True)
    totals = np.zeros(len(unique))  # float: exact up to 2⁵³ ps (two and a half hours); int64 could overflow
    np.add.at(totals, index, spans[:, 1] - spans[:, 0])
    order = np.argsort(-totals, kind="stable")[:MAX_KERNELS]
    return tuple(
        Kernel(
            name=trace.texts[unique[i]].removeprefix(EAGER), count=int(counts[i]), total_ms=float(totals[i]) / PS_PER_MS
        )
        for i in order
    )


def _host_ops(
    host: Host,
    kind: NDArray[np.int8],
    windows: Spans,
    gpus: Iterable[list[Line]],
    host_nodes: frozenset[str] | None,
    notes: list[str],
) -> tuple[HostOp, ...]:
    if host_nodes is None and not has_launches(host.trace, kind):
        notes.append("Launches carry no ids in this trace, so it does not tell which operations ran on the host.")
        return ()
    streams = joined(line.events for lines in gpus for line in lines if line.name != "Steps")
    launched = streams.take(streams.start_ps >= windows[0, 0])
    ops = host_ops(host, kind, windows, launched, host_nodes)
    if len(ops) > MAX_HOST_OPS:
        notes.append(f"Of {len(ops):,} operations on the host the {MAX_HOST_OPS:,} that cost most are listed.")
    return ops[:MAX_HOST_OPS]


def _steps_notes(name: str, steps: Steps) -> list[str]:
    notes = []
    if steps.source == "whole trace":
        notes.append(f"Nothing marks steps on {name}: the stretch of all its events counts as one step.")
    if steps.by_time:
        notes.append(f"Launches on {name} carry no ids: its steps begin with the first event after each host step's.")
    if steps.empty:
        count = counted(steps.empty, "annotated step")
        notes.append(f"{count} started nothing on {name} and belong to the step before.")
    return notes
