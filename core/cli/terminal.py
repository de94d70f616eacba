"""What people see in a terminal: a progress bar and a table's header that stands out. A pipe gets plain lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from core.numbers import duration
from core.studies.progress import Progress

REFRESH_S = 2.0
BAR_CHARS = 20


def say(text: str) -> None:
    """A line on stderr."""
    click.echo(text, err=True)


def header(line: str) -> str:
    """A table's first line, which stands out where stdout is a terminal that shows colours."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return line if plain else click.style(line, fg="cyan", bold=True)


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """What shows progress on stderr: a bar with the time left in a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield _PlainLines()
        return
    # imported here because most commands show no progress
    from rich import progress as rich
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(rich.ProgressColumn):
        """What is left of the budget at most; it runs down between two reports."""

        def render(self, task: rich.Task) -> Text:
            left_s = max(0, round(task.fields["end_s"] - time.monotonic()))
            return Text(f"{duration(left_s)} left" if task.total else "", style="progress.remaining")

    words = rich.TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    # drawn once a second: drawing more often would take time from what is measured
    with rich.Progress(
        rich.BarColumn(BAR_CHARS), TimeLeft(), words, console=Console(stderr=True), transient=True, expand=True,
        refresh_per_second=1,
    ) as bar:  # fmt: skip
        task = bar.add_task("Starting", total=None, end_s=0.0)

        def show(at: Progress) -> None:
            whole_s = max(at.elapsed_s + at.remaining_s, 1e-9)
            end_s = time.monotonic() + at.remaining_s
            bar.update(task, total=whole_s, completed=at.elapsed_s, description=_words(at), end_s=end_s)

        yield show


class _PlainLines:
    """A line whenever the phase changes, and otherwise what is new, every two seconds at most."""

    def __init__(self) -> None:
        self._phase, self._activity, self._last_s = "", "", 0.0

    def __call__(self, at: Progress) -> None:
        waited = not 0 <= at.elapsed_s - self._last_s < REFRESH_S  # below 0: a study within one has its own clock
        if at.phase != self._phase or (at.activity != self._activity and waited):
            self._phase, self._activity, self._last_s = at.phase, at.activity, at.elapsed_s
            say(f"{at.elapsed_s:6.1f} s  {_words(at)}")


def _words(at: Progress) -> str:
    done = f" ({at.cells_done:,} of {at.cells_total:,})" if at.cells_total else ""
    verdict = getattr(at.answer, "verdict", None)
    return f"{at.activity}{done}." + (f"  So far: {verdict.sentence}" if verdict is not None else "")
