"""A study's tools on a simulated machine and its virtual clock."""

import threading
from typing import Any

from core.studies.runner import NullRecorder, OnProgress, Recorder, StudyTools, unheard


def tools_for(
    machine: Any,
    report: OnProgress = unheard,
    cancel: threading.Event | None = None,
    interference: Any = None,
    recorder: Recorder | None = None,
    launch: Any = None,
    meter: Any = None,
) -> StudyTools:
    """Return the tools; ``machine`` has ``launch`` and ``clock``, and ``launch`` replaces its own."""
    launch, cancel, recorder = launch or machine.launch, cancel or threading.Event(), recorder or NullRecorder()
    return StudyTools(launch, machine.clock, cancel, interference, report, recorder, meter=meter)


class StopsLater(threading.Event):
    """A stop request that arrives after ``looks`` checks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0
