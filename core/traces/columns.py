"""Conversion of parsed events to columns: selects the events and values that are kept."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from core.traces.events import NONE, Events, Ids, Ints, TraceError, compact, joined

MAX_TEXT_CHARS = 4_000
MAX_TEXTS, MAX_TEXTS_BYTES = 300_000, 128 * 1024**2
MAX_PS = 2**60
"""About 13 days: no event can be further from a trace's beginning, and sums stay within 64 bits."""
DROPPED = ("$", "ThreadpoolListener::", "MemoryAllocation", "MemoryDeallocation")
"""Functions of the Python tracer, and markers without a length. They are most of a host's events."""
END = "end: "
_SIZE = re.compile(rb"\b(?:size|num_bytes):(\d{1,18})")
_KINDS = {
    b"correlation_id": "link",
    b"step_num": "step",
    b"memcpy_details": "size",
    b"from": "source",
    b"to": "sink",
    b"tf_function_call": "call",
    b"hlo_op": "xla",
    b"_p": "producer",
    b"_c": "consumer",
}
_TEXTS = ("source", "sink", "call")


class Texts:
    """Table of distinct texts, each represented by an index."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {"": 0}
        self._bytes = 0

    def index(self, data: bytes) -> int:
        """Return the index of a text. Raises TraceError if a trace has too many."""
        text = data.decode(errors="replace")[:MAX_TEXT_CHARS]
        index = self._index.get(text)
        if index is None:
            index = self._index[text] = len(self._index)
            self._bytes += sys.getsizeof(text)
            if self._bytes > MAX_TEXTS_BYTES or index > MAX_TEXTS:
                raise TraceError("The trace holds more text than can be read; trace fewer steps or one program.")
        return index

    def all(self) -> tuple[str, ...]:
        return tuple(self._index)


class Metadata:
    """Names of a plane's events and values."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.names: dict[int, int] = {}
        """Index of an event's name, or −1 if it is left out."""
        self.ends: set[int] = set()
        self.kinds: dict[int, str] = {}
        self.values: dict[int, bytes] = {}

    def add(self, plane: Any) -> None:
        """Add the declarations in a piece of an XPlane."""
        for key, event in plane.event_metadata.items():
            dropped = event.name.startswith(tuple(text.encode() for text in DROPPED))
            self.names[key] = -1 if dropped else self._texts.index(event.name)
            if event.name.startswith(END.encode()):
                self.ends.add(key)
        for key, stat in plane.stat_metadata.items():
            self.values[key] = stat.name[:MAX_TEXT_CHARS]
            if stat.name in _KINDS:
                self.kinds[key] = _KINDS[stat.name]


class Columns:
    """Columns of one line while it is read; its times count from ``base_ps``."""

    def __init__(self, texts: Texts, base_ps: int) -> None:
        self._texts, self._base_ps = texts, base_ps
        self._parts: list[Events] = []

    def add(self, events: Iterable[Any], metadata: Metadata) -> int:
        """Add events and return the number of their values. Raises TraceError for an event at an impossible time."""
        rows, values = [], 0
        names, kinds = metadata.names, metadata.kinds
        for event in events:
            key = event.metadata_id
            name = names.get(key, 0)
            if name < 0 or event.num_occurrences:  # a sum over events has no place in time
                continue
            stats: dict[str, Any] = {}
            values += len(event.stats)
            for stat in event.stats:
                kind = kinds.get(stat.metadata_id)
                if kind is not None:
                    stats[kind] = stat
            row = (event.offset_ps, event.duration_ps, name)
            rows.append((*row, *self._values(stats, metadata, key in metadata.ends)) if stats else (*row, *_NOTHING))
        if rows:
            self._parts.append(self._events(rows))
        return values

    def _values(self, stats: dict[str, Any], metadata: Metadata, is_end: bool) -> tuple[int, ...]:
        xla = "xla" in stats
        tie = stats.get("link") or (stats.get("producer") if xla else stats.get("consumer") if is_end else None)
        step, size = stats.get("step"), stats.get("size")
        details = _SIZE.search(_bytes(size, metadata)) if size is not None else None
        return (
            _whole(tie) if tie is not None else NONE,
            _whole(step) if step is not None else NONE,
            int(details[1]) if details else NONE,
            *(self._texts.index(_bytes(stats[kind], metadata)) if kind in stats else 0 for kind in _TEXTS),
            xla,
        )

    def _events(self, rows: list[tuple[int, ...]]) -> Events:
        columns = list(zip(*rows, strict=True))
        start, length = np.array(columns[0], dtype=np.int64), np.array(columns[1], dtype=np.int64)
        too_far = abs(self._base_ps) > MAX_PS or start.max() > MAX_PS or length.max() > MAX_PS
        if too_far or min(start.min(), length.min()) < 0:
            raise TraceError("The trace is damaged: it holds events at times that cannot be.")

        def ids(column: int) -> Ids:
            return compact(np.array(columns[column], dtype=np.int32))

        def whole(column: int) -> Ints:
            return compact(np.array(columns[column], dtype=np.int64))

        return Events(
            start_ps=start + self._base_ps,
            duration_ps=length,
            name=ids(2),
            link=whole(3),
            step=whole(4),
            size_bytes=whole(5),
            source=ids(6),
            sink=ids(7),
            call=ids(8),
            computes=compact(np.array(columns[9], dtype=np.bool_)),
        )

    def events(self) -> Events:
        return joined(self._parts)


_NOTHING = (NONE, NONE, NONE, 0, 0, 0, False)


def _whole(stat: Any) -> int:
    """Return an integer as a signed one of 64 bits (ids are unsigned)."""
    value: int = stat.uint64_value or stat.int64_value
    return value - 2**64 if value >= 2**63 else value


def _bytes(stat: Any, metadata: Metadata) -> bytes:
    return metadata.values.get(stat.ref_value, b"") if stat.ref_value else stat.str_value[:MAX_TEXT_CHARS]
