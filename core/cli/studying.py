"""A study run by a command: in this thread, under the machine's lock, with its progress on stderr."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from core.cli.files import Failure
from core.cli.sweep import REFRESH_S, say, stop_signals
from core.measure.protocol import Launcher, WorkerError

if TYPE_CHECKING:
    from core.measure.progress import Progress
    from core.measure.studies import StudyTools

T = TypeVar("T")


class Stopped(Failure):
    """The person stopped the study before there was anything to keep."""


def run_study(title: str, work: Callable[[StudyTools], T], launcher: Launcher | None = None) -> T:
    """What ``work`` measures; ``launcher`` where the workers need a permission. Raises Failure with a sentence."""
    from core.measure import clock, process
    from core.measure.lock import Busy, machine_lock
    from core.measure.noise import NoiseSampler
    from core.measure.pair import SweepFailed
    from core.measure.studies import StudyFailed, StudyTools

    cancel = threading.Event()
    tools = StudyTools(launcher or process.launch_processes, clock.WallClock(), cancel, NoiseSampler, _reporter())
    try:
        with stop_signals(cancel), machine_lock(title):
            return work(tools)
    except (Busy, StudyFailed, SweepFailed, WorkerError) as error:
        raise (Stopped if cancel.is_set() else Failure)(str(error)) from None


def _reporter() -> Callable[[Progress], None]:
    """Says each new activity, at most one every ``REFRESH_S``."""
    last, last_s = "", float("-inf")

    def report(progress: Progress) -> None:
        nonlocal last, last_s
        if progress.activity != last and progress.elapsed_s - last_s >= REFRESH_S:
            last, last_s = progress.activity, progress.elapsed_s
            say(f"{last_s:6.1f} s  {last}")

    return report
