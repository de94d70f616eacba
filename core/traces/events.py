"""Events of a profiler trace as columns, one set per line (a GPU stream, a thread), independent of file formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base.schema import UserError

NONE = int(np.iinfo(np.int64).min)
"""Marks a missing value in ``link``, ``step`` and ``size_bytes``."""
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Flags = NDArray[np.bool_]


class TraceError(UserError):
    """The input is not a readable trace."""


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one line, sorted by start, longest first at the same start; every column has shape (events,).

    Times are integer picoseconds from an origin shared by all lines of a trace. Columns of type ``Ids`` hold indices
    into :attr:`Trace.texts`, 0 for no text. ``link`` ties events together: a launch on the host to the work it started
    on the device (the correlation id), or an XLA operation of the CPU to its ``end:`` event. ``source`` and ``sink``
    are the operations between which a copy runs, ``call`` is the way a ``tf.function`` call was served, ``computes``
    marks events that the reader knows to compute: operations of an XLA program, PyTorch's outermost ones.
    """

    start_ps: Ints
    duration_ps: Ints
    name: Ids
    link: Ints
    step: Ints
    size_bytes: Ints
    source: Ids
    sink: Ids
    call: Ids
    computes: Flags

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> Ints:
        return self.start_ps + self.duration_ps

    @property
    def spans(self) -> Ints:
        """Begin and end, shape (events, 2)."""
        return np.stack([self.start_ps, self.end_ps], axis=1)

    def take(self, which: NDArray[Any]) -> Events:
        """Return the events selected by a mask or an index array."""
        return Events(*(getattr(self, field.name)[which] for field in fields(self)))


_WHOLE, _IDS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
_NO_EVENTS = Events(_WHOLE, _WHOLE, _IDS, _WHOLE, _WHOLE, _WHOLE, _IDS, _IDS, _IDS, np.empty(0, dtype=np.bool_))


def joined(parts: Iterable[Events]) -> Events:
    """Return all events of several lines in the order of one line."""
    parts = (_NO_EVENTS, *parts)
    start, length = (np.concatenate([getattr(part, name) for part in parts]) for name in ("start_ps", "duration_ps"))
    order = np.lexsort((-length, start))
    columns = (np.concatenate([getattr(part, field.name) for part in parts])[order] for field in fields(Events))
    return Events(*(compact(column) for column in columns))


def compact(column: NDArray[Any]) -> NDArray[Any]:
    """Return the column; one with equal values only (such as all missing) is stored as a single value."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[:1].copy(), column.shape)
    return column


@dataclass(frozen=True, eq=False)
class Line:
    """A stream of a GPU, its line of steps, or a thread of the host (``thread`` is then its id)."""

    plane: str
    name: str
    thread: int
    events: Events


@dataclass(frozen=True, eq=False)
class Trace:
    """Lines of a trace that the analysis uses, and the texts to which its events refer (the first is empty).

    ``errors`` and ``warnings`` are the profiler's messages about its own work (:mod:`core.traces.wire`).
    """

    lines: tuple[Line, ...]
    texts: tuple[str, ...]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
