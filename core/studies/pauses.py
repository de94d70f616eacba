"""Pauses of a measurement between visits, in which its pages draw what is new: drawing uses the cores that are
measured, in the server as in the browser (measured: benchmarks/polling.py).

Open pages wait here for news. While a block runs nothing wakes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from core.worker.clock import Clock

LONGEST_S = 0.6  # a page of two charts took 0.4 s of CPU (benchmarks/polling.py)
EVERY_S = 10.0
SELDOM_S = 60.0
SHARE = 0.04  # share of the time that pauses may take
ELAPSED_SHARE = 0.05  # least time between pauses, as a share of the time since the beginning

Wait = Callable[[threading.Condition, Callable[[], bool], float], bool]


class Pauses:
    """Pauses announced by one measurement at a time, awaited by any number of pages. Thread-safe.

    ``clock`` decides when a pause is due; ``wait`` lets time pass in it, as :meth:`threading.Condition.wait_for`.
    """

    def __init__(self, clock: Clock, wait: Wait = threading.Condition.wait_for) -> None:
        self._clock, self._wait = clock, wait
        self._changed = threading.Condition()
        self._ids = count()
        self._waiting: dict[int, _Waiting] = {}
        self._begin_s = self._due_s = float("-inf")
        self.changes = 0
        """Counter of what every page shows at once: a beginning, a request to stop, an end."""

    def begin(self) -> None:
        """Begin a measurement; its first pause is due at once."""
        self._begin_s = self._due_s = self._clock.now_s()
        self.change()

    def change(self) -> None:
        """Let every page draw at once, and end the current pause."""
        with self._changed:
            self.changes += 1
            self._wake(lambda page: page.changes)
            self._changed.notify_all()

    def soon(self) -> None:
        """Make the next pause due at once, because there is something new to see."""
        self._due_s = float("-inf")

    def pause(self, cancel: threading.Event, longest_s: float = LONGEST_S) -> None:
        """Announce a pause if one is due and a page waits for it, and let the pages draw: until all of them wait again,
        ``cancel`` is set, or ``longest_s`` is over. Call it while no block runs.
        """
        begin_s = self._clock.now_s()
        with self._changed:
            watched = self.watched
            if begin_s < self._due_s or not watched or cancel.is_set():
                return
            self._wake(lambda page: page.pauses)
            self._wait(self._changed, lambda: cancel.is_set() or self.watched >= watched, longest_s)
        now_s = self._clock.now_s()
        seldom_s = min(SELDOM_S, ELAPSED_SHARE * (now_s - self._begin_s))
        self._due_s = now_s + max(EVERY_S, (now_s - begin_s) / SHARE, seldom_s)

    @property
    def watched(self) -> int:
        """Number of page parts that wait for a pause."""
        return sum(page.pauses for page in self._waiting.values())

    @contextmanager
    def waiting(self, wake: Callable[[], None], *, changes: bool, pauses: bool) -> Iterator[None]:
        """Wait, as a part of a page, for ``changes``, ``pauses`` or both; entering tells that the part has drawn.

        ``wake`` must return at once.
        """
        with self._changed:
            key = next(self._ids)
            self._waiting[key] = _Waiting(wake, changes, pauses)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting.pop(key, None)

    def _wake(self, wanted: Callable[[_Waiting], bool]) -> None:
        for key, page in list(self._waiting.items()):
            if wanted(page):
                del self._waiting[key]
                page.wake()


class _Waiting(NamedTuple):
    wake: Callable[[], None]
    changes: bool
    pauses: bool
