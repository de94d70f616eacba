"""Description of how the workers of a run were started."""

from __future__ import annotations

from collections import Counter

from core.evidence import Start
from core.numbers import number
from core.studies.sweep.record import Run

WORDS: dict[Start, str] = {
    "forked": "{count} forked from a process that had imported the framework",
    "fresh": "{count} started afresh",
}


def start_lines(run: Run) -> list[str]:
    """Return one line, with the duration of the longest start; none if the run did not record it."""
    counts = Counter(process.start for process in run.processes if process.start is not None)
    if not counts:
        return []
    ways = " and ".join(words.format(count=counts[way]) for way, words in WORDS.items() if counts[way])
    longest_s = max(process.startup_ms for process in run.processes) / 1000
    return [f"Worker processes: {ways}; the longest start took {number(longest_s)} s"]
