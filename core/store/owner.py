"""Identity of the process that measures a run: machine, process and its start time, to tell a dead owner from a live
one.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import psutil

from core.machine.lock import this_host

# A process on another machine cannot be checked; a sweep that recorded nothing for this long is over.
SILENT_ELSEWHERE = timedelta(hours=1)


def this_process() -> str:
    return f"{this_host()} {os.getpid()} {psutil.Process().create_time():.2f}"


def is_alive(owner: str, seen_at: str) -> bool:
    """Return True if ``owner`` still runs or, on another machine, recorded anything recently.

    False if a damaged row tells neither.
    """
    try:
        host, _, process = owner.partition(" ")
        if host and host != this_host():
            return datetime.now(UTC) - datetime.fromisoformat(seen_at) < SILENT_ELSEWHERE
        pid, _, started = process.partition(" ")
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1.0
    except (ValueError, TypeError, AttributeError, OverflowError, psutil.Error):
        return False
