"""Messages from the made-up engines to the made-up cards, through one small file per engine process."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

SLOW_CLOCK = 0.55
"""Share of the default clock at which heat limits it."""
HOT_AFTER_S = 0.5
CPU = -1
"""Replaces a card's number."""


@dataclass(frozen=True)
class Activity:
    """Activity of one engine on a card, or on the :data:`CPU`.

    ``extra_w`` is its power above idle while busy, ``energy_j`` its energy until ``since_s`` (monotonic clock).
    """

    pid: int
    card: int
    busy: bool = False
    since_s: float = 0.0
    busy_s: float = 0.0
    energy_j: float = 0.0
    utilisation: float = 0.0
    extra_w: float = 0.0
    memory_bytes: int = 0
    link_kb_s: int = 0

    def energy_at(self, now_s: float) -> float:
        return self.energy_j + self.extra_w * max(0.0, now_s - self.since_s) * self.busy

    @property
    def hot(self) -> bool:
        """True if heat has built up, in a state where it does."""
        return self.busy and self.busy_s > HOT_AFTER_S


class Teller:
    """Writes an engine's activity."""

    def __init__(self, folder: Path, card: int) -> None:
        self._path = folder / f"activity-{os.getpid()}.json"
        self.now = Activity(os.getpid(), card)
        self._tell()

    @contextlib.contextmanager
    def busy(self, utilisation: float, extra_w: float, link_kb_s: int = 0) -> Iterator[None]:
        begin_s = time.monotonic()
        self.now = replace(self.now, busy=True, since_s=begin_s, utilisation=utilisation, extra_w=extra_w,
                           link_kb_s=link_kb_s)  # fmt: skip
        self._tell()
        try:
            yield
        finally:
            end_s = time.monotonic()
            self.now = replace(self.now, busy=False, since_s=end_s, busy_s=self.now.busy_s + end_s - begin_s,
                               energy_j=self.now.energy_at(end_s), utilisation=0.0, link_kb_s=0)  # fmt: skip
            self._tell()

    def holds(self, memory_bytes: int) -> None:
        self.now = replace(self.now, memory_bytes=memory_bytes)
        self._tell()

    def _tell(self) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self.now)))
        new.replace(self._path)


def told(folder: Path) -> list[Activity]:
    """Return every engine's latest activity; an ended one is idle and holds nothing, but its energy stays spent."""
    activities = []
    for path in sorted(folder.glob("activity-*.json")):
        with contextlib.suppress(OSError, ValueError):
            activity = Activity(**json.loads(path.read_text()))
            if not psutil.pid_exists(activity.pid):
                activity = replace(activity, busy=False, memory_bytes=0)
            activities.append(activity)
    return activities
