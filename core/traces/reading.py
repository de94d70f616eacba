"""Reading a profiler's trace file of any kind known here, by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.traces import chrome, xplane
from core.traces.events import Trace
from core.traces.record import TraceReport
from core.traces.report import report

READERS: dict[str, Callable[[Path], Trace]] = {
    "*.xplane.pb": xplane.read,
    "*.json": chrome.read,
    "*.json.gz": chrome.read,
}
"""Readers by the name pattern of a profiler's files."""
CHROME = (".json", ".json.gz")


def read_report(path: Path) -> TraceReport:
    """Return the content of a trace file by device and step; a file of any other name is read as XPlane.

    Raises TraceError.
    """
    return report((chrome if path.name.lower().endswith(CHROME) else xplane).read(path))
