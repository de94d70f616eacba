"""Queue of writes to the store, so that measuring never waits for a locked, full or absent one: it gets them later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from core.base.numbers import counted
from core.studies.runner import Recorder, StudyFailed, Unavailable

WAIT_S = 0.5  # enough for a healthy store, so that no block is measured while it writes
RETRY_S = 1.0
LAST_WAIT_S = 10.0  # at the end of a program, for pending writes


class StudyStore(Recorder, Protocol):
    """Recorder that also keeps whole records; :class:`core.store.Store` is one."""

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None: ...


@dataclass(eq=False)
class _Write:
    study_id: str
    records: int
    act: Callable[[StudyStore], None]
    done: bool = False
    error: Exception | None = None


class StoreQueue:
    """:class:`StudyStore` in front of another one: a thread writes everything there, in order.

    While the other raises Unavailable or OSError, writes stay in memory and are retried; a write that it refuses for
    another reason is given up with all that follow of the same study. :meth:`unwritten` tells what is missing.
    """

    def __init__(self, store: StudyStore) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._writes: deque[_Write] = deque()
        self._refused: dict[str, Exception] = {}
        self._lost = 0
        self._problem = ""
        self._closed = False
        self._thread: threading.Thread | None = None

    def begin(self, run: Any) -> None:
        """Begin a run. Raises StudyFailed if the store says at once that the run must not be measured."""
        with self._changed:
            self._refused.pop(run.id, None)  # a new attempt
        write = self._put(run.id, 0, lambda store: store.begin(run))
        if isinstance(write.error, StudyFailed):
            raise write.error

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:
        self._put(run_id, len(records), lambda store: store.record(run_id, records))

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None:
        self._put(run_id, 1, lambda store: store.finish(run_id, status, elapsed_s))

    def delete(self, run_id: str) -> None:
        self._put(run_id, 0, lambda store: store.delete(run_id))

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:
        self._put(study_id, 1, lambda store: store.add_study(kind, study_id, record, name))

    def unwritten(self) -> str | None:
        """Return a sentence on what is missing from the store, for now or for good, and why; None if nothing is."""
        with self._changed:
            missing = self._lost + sum(write.records for write in self._writes)
            if not missing:
                return None
            why = self._problem or "The database does not answer."
            return f"The history lacks {counted(missing, 'record')} of what was measured. {why}"

    @property
    def waiting(self) -> bool:
        """Tell whether something is still to be written."""
        return bool(self._writes)

    def forget(self) -> None:
        """Reset the count of writes that were given up."""
        with self._changed:
            self._lost = 0

    def close(self, wait_s: float | None = None) -> None:
        """End, once everything is written or after ``wait_s`` (default: LAST_WAIT_S)."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._writes, LAST_WAIT_S if wait_s is None else wait_s)
            self._closed = True
            self._changed.notify_all()

    def _put(self, study_id: str, records: int, act: Callable[[StudyStore], None]) -> _Write:
        write = _Write(study_id, records, act)
        with self._changed:
            behind = bool(self._writes)
            self._writes.append(write)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="breakeven-store", daemon=True)
                self._thread.start()
            if not behind:
                self._changed.wait_for(lambda: write.done, WAIT_S)
        return write

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._writes or self._closed)
                if self._closed:
                    return
                write = self._writes[0]
            error = self._refused.get(write.study_id) or self._error_of(write)
            with self._changed:
                if error is not None or not self._lost:
                    self._problem = "" if error is None else str(error)
                if isinstance(error, (Unavailable, OSError)):
                    self._changed.wait_for(lambda: self._closed, RETRY_S)
                    continue
                if error is not None:
                    self._refused[write.study_id] = error
                    self._lost += write.records
                self._writes.popleft()
                write.error, write.done = error, True
                self._changed.notify_all()

    def _error_of(self, write: _Write) -> Exception | None:
        try:
            write.act(self._store)
        except Exception as error:
            return error
        return None
