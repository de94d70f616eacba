"""Tools of benchmarks that measure: real workers, the wall clock, and the sampling of other programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from core.machine.interference import InterferenceSampler
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.progress import Progress
from core.studies.runner import StudyTools, watching
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from core.workload.spec import Target


@contextmanager
def real_tools(*targets: Target, report: Callable[[Progress], None] = lambda _: None) -> Iterator[StudyTools]:
    """Yield the tools for studies of these targets, one after the other; ``report`` receives their progress."""
    with watching(InterferenceSampler, targets) as interference:
        yield StudyTools(launch_processes, WallClock(), threading.Event(), interference, report)


def sweep(plan: SweepPlan) -> Run:
    """Run a real sweep that is not stored."""
    with real_tools(*plan.targets) as tools:
        return run_sweep(tools, new_run(plan))
