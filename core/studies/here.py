"""Measuring on this machine: under its lock, beside watched neighbours, with the record kept at the end.

Pages (:mod:`core.studies.jobs`), commands and the machines of a fleet all measure through :func:`measure_here`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from core.machine import interference, meter
from core.machine.lock import Held, machine_lock
from core.studies.kind import Kind, Task
from core.studies.progress import Progress
from core.studies.runner import (
    InterferenceSource,
    MeterSource,
    OnProgress,
    Stop,
    StudyTools,
    metering,
    watching,
)
from core.studies.store_queue import StudyStore
from core.worker import clock, process
from core.worker.clock import Clock
from core.worker.protocol import Launcher
from core.workload.spec import Target

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Instruments:
    """Instruments of a measurement here: real workers and the wall clock, or simulated ones in tests."""

    launcher: Launcher = field(default_factory=lambda: process.launch_processes)
    clock: Clock = field(default_factory=lambda: clock.WallClock())
    interference: Callable[[], InterferenceSource | None] = field(
        default_factory=lambda: interference.InterferenceSampler
    )
    meter: Callable[[], MeterSource | None] = field(default_factory=lambda: meter.Meter)
    startups: dict[tuple[Target, ...], float] = field(default_factory=dict)
    """Longest start of these targets so far in seconds, over all measurements with these instruments."""


def measure_here(
    task: Task[P, R],
    plan: P,
    recorder: StudyStore,
    progress: OnProgress,
    stop: Stop,
    instruments: Instruments,
    *,
    study_id: str | None = None,
    name: str | None = None,
    lock: Callable[[str], AbstractContextManager[Held]] = machine_lock,
    pause: Callable[[], None] = lambda: None,
) -> R:
    """Measure a plan and keep its record; a task that measures elsewhere needs neither lock nor silence here.

    Args:
        recorder: gets the rounds of a sweep as they arrive, and the record of another kind at the end.
        study_id: id of the record in the history (default: a new one).
        name: its name in the history (default: its title).
        lock: takes the machine, given the measurement's description.
        pause: lets open pages draw (:class:`core.studies.runner.StudyTools`).

    Raises Busy, Cancelled, or what the task raises.
    """
    with ExitStack() as stack:
        held = source = energy = None
        if task.here:
            held = stack.enter_context(lock(task.describe(plan)))
            source = stack.enter_context(watching(instruments.interference, task.targets(plan)))
            energy = stack.enter_context(metering(instruments.meter))

        def report(at: Progress) -> None:
            if held is not None:
                held.ends_in(at.remaining_s)
            progress(at)

        tools = StudyTools(
            instruments.launcher, instruments.clock, stop, source, report, recorder, instruments.startups, energy, pause
        )
        record = task.run(tools, plan)
    if isinstance(task, Kind) and not task.streams:
        recorder.add_study(task.name, study_id or task.id_of(plan), record, name)
    return record
