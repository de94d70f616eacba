"""History entries for studies of an earlier version, computed in the background, one at a time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from core.store import Store, StoreError

if TYPE_CHECKING:
    from core.studies.jobs import Jobs

PAUSE_S, BUSY_S = 0.05, 5.0


def begin(store: Store, jobs: Jobs, stop: threading.Event) -> None:
    """Describe studies in a separate thread until ``stop`` is set; pause during any measurement on this machine."""
    threading.Thread(target=_work, args=(store, jobs, stop), name="breakeven-history", daemon=True).start()


def _work(store: Store, jobs: Jobs, stop: threading.Event) -> None:
    with suppress(StoreError):  # the next server continues
        pause_s = PAUSE_S
        while not stop.wait(pause_s):
            busy = jobs.writing or jobs.busy_elsewhere() is not None
            if not busy and not store.describe():
                return
            pause_s = BUSY_S if busy else PAUSE_S
