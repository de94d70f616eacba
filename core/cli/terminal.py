"""Output of commands: answers on stdout, messages on stderr, a progress bar during measurements.

Nothing else prints. Outside text is cleaned (:mod:`core.base.text`). In a terminal a table's header is highlighted; a
pipe gets plain lines.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from core.base.files import reason
from core.base.numbers import duration, headers
from core.base.text import clean, in_lines, json_text
from core.studies.progress import Progress

REFRESH_S = 2.0
BAR_CHARS = 20


class Unprinted(click.ClickException):
    """An answer that could not be printed."""

    exit_code = 1

    def __init__(self, error: OSError) -> None:
        super().__init__(f"The answer could not be printed: {reason(error)}.")


def say(text: str) -> None:
    """Print a line on stderr; it is silently lost if nobody reads it any more."""
    with suppress(OSError):
        click.echo(clean(text), err=True)


def say_lines(text: str) -> None:
    """Print lines on stderr, such as those of a traceback."""
    click.echo(in_lines(text.split("\n")), err=True)


def show(text: str) -> None:
    """Print an answer on stdout; table headers are highlighted in a terminal with colours.

    Raises Unprinted.
    """
    plain = (
        sys.stdout is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    )
    noted = () if plain else headers.get() or ()
    lines = map(clean, text.split("\n"))
    _print("\n".join(click.style(line, fg="cyan", bold=True) if line in noted else line for line in lines))


def show_json(data: Any) -> None:
    """Print one JSON object on stdout. Raises Unprinted."""
    _print(json_text(data))


def _print(text: str) -> None:
    try:
        if sys.stdout is None:  # closed before this program began
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        click.echo(text)
    except OSError as error:
        raise Unprinted(error) from error


def unprinted(error: Exception) -> Unprinted | None:
    """Return the failure if click itself could not print, as with help and the version; else None."""
    frames = traceback.walk_tb(error.__traceback__)
    if isinstance(error, OSError) and any(frame.f_code is click.echo.__code__ for frame, _ in frames):
        return Unprinted(error)
    return None


def leave_streams() -> None:
    """Flush the streams and discard the rest of one that cannot be written; Python would otherwise exit with status
    120.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Show progress on stderr: a bar with the time left in a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield _PlainLines()
        return
    # imported here because most commands show no progress
    from rich import progress as rich
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(rich.ProgressColumn):
        """Column with the most time left of the budget, counting down between two reports."""

        def render(self, task: rich.Task) -> Text:
            left_s = max(0, round(task.fields["end_s"] - time.monotonic()))
            return Text(f"{duration(left_s)} left" if left_s else "", style="progress.remaining")

    words = rich.TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    # redrawn once a second: more often would take time from the measurement
    bar = rich.Progress(
        rich.BarColumn(BAR_CHARS), TimeLeft(), words, console=Console(stderr=True), transient=True, expand=True,
        refresh_per_second=1,
    )  # fmt: skip
    task = bar.add_task("Starting", total=None, end_s=0.0)

    def show(at: Progress) -> None:
        end_s = time.monotonic() + at.remaining_s
        bar.update(task, total=1.0, completed=at.share(at.remaining_s), description=_words(at), end_s=end_s)

    bar.start()
    try:
        yield show
    finally:
        with suppress(OSError):  # the terminal may have been closed
            bar.stop()


class _PlainLines:
    """Progress as lines: one on every change of phase, and new activity at most every two seconds."""

    def __init__(self) -> None:
        self._phase, self._activity, self._last_s = "", "", 0.0

    def __call__(self, at: Progress) -> None:
        waited = not 0 <= at.elapsed_s - self._last_s < REFRESH_S  # below 0: a study within a study has its own clock
        if at.phase != self._phase or (at.activity != self._activity and waited):
            self._phase, self._activity, self._last_s = at.phase, at.activity, at.elapsed_s
            say(f"{at.elapsed_s:6.1f} s  {_words(at)}")


def _words(at: Progress) -> str:
    done = f" ({at.cells_done:,} of {at.cells_total:,})" if at.cells_total else ""
    verdict = getattr(at.answer, "verdict", None)
    return clean(f"{at.activity}{done}." + (f"  So far: {verdict.sentence}" if verdict is not None else ""))
