"""Operations of the traced steps that ran on the host although the work belongs on a GPU, and the bytes they moved."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from core.traces.events import NONE, Events, Trace
from core.traces.intervals import Spans, holds
from core.traces.partition import PS_PER_MS, Host
from core.traces.record import HostOp
from core.traces.trace_names import VIEWS, Kind, expected, is_host, operation

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
