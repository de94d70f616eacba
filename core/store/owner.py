"""Who measures a run: machine, process and its start time, so that a dead owner is known from a living one."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import psutil

from core.machine.lock import this_host

# Whether a process on another machine lives cannot be seen; a sweep that recorded nothing for so long is over.
SILENT_ELSEWHERE = timedelta(hours=1)


def this_process() -> str:
    return f"{this_host()} {os.getpid()} {psutil.Process().create_time():.2f}"


def is_alive(owner: str, seen_at: str) -> bool:
    """Whether ``owner`` still runs; on another machine, whether it recorded anything of late.

    False where a damaged row says neither.
    """
    try:
        host, _, process = owner.partition(" ")
        if host and host != this_host():
            return datetime.now(UTC) - datetime.fromisoformat(seen_at) < SILENT_ELSEWHERE
        pid, _, started = process.partition(" ")
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1.0
    except (ValueError, TypeError, AttributeError, OverflowError, psutil.Error):
        return False
