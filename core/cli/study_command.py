"""Common behaviour of commands that measure: flags, progress, Ctrl-C, the history, ``--out``, exit status.

Ctrl-C ends a study and keeps its measurements, like Cancel on a page; SIGTERM or closing the terminal interrupts it,
and keeps as much.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.base.schema import UserError
from core.base.text import json_text
from core.cli.files import FILE, Failure, check_writable, conclude, refusing, together, write_out
from core.cli.lists import ListsCommand
from core.cli.terminal import say, shown_progress
from core.rounds.run import Run
from core.studies.kind import Context, Kind, Task
from core.studies.progress import Progress
from core.studies.runner import Cancelled, NullRecorder, Stop
from core.studies.store_queue import StoreQueue
from core.worker.protocol import Launcher

if TYPE_CHECKING:
    from core.store import Store

STOPPING = b"\nStopping; what was measured is kept.\n"
NOTHING = "Stopped before the first round; nothing was measured."
R = TypeVar("R")


@dataclass(frozen=True)
class Asked:
    """Request of a command: plan, context of the answer, messages to print first, and the launcher if workers need a
    permission.
    """

    plan: Any
    context: Context = field(default_factory=Context)
    says: tuple[str, ...] = ()
    launcher: Launcher | None = None


Make = Callable[[dict[str, Any], "History"], Asked]
store_option = click.option(
    "--store/--no-store", default=True, help="Keep what is measured in this machine's history (default: yes)."
)


def study_command(kind: Kind[Any, Any, Any], name: str | None = None) -> Callable[[Make], click.Command]:
    """Return a decorator that makes a command which runs a study of that kind.

    The decorated function makes the plan from the flags, raising BadInput; its docstring is the command's help. Flags
    added to it by its own decorators come first.
    """
    common = together(
        click.option("--out", type=FILE, help="Write what it says and was measured, in JSON."),
        click.option("--json", "as_json", is_flag=True, help="Print that JSON."),
        click.option("--name", help="Name in the history."),
        store_option,
    )

    def decorate(make: Make) -> click.Command:
        def command(**flags: Any) -> None:
            _run(kind, make, flags)

        params = list(reversed(getattr(make, "__click_params__", [])))
        return common(click.command(name or kind.name, ListsCommand, help=make.__doc__, params=params)(command))

    return decorate


def _run(kind: Kind[Any, Any, Any], make: Make, flags: dict[str, Any]) -> None:
    out: Path | None = flags["out"]
    if out is not None:
        check_writable(out)
    stop = Stop()
    with History(flags["store"]) as history:
        request = make(flags, history)  # Ctrl-C ends this at once, even while user code builds its model
        with stop_signals(stop):
            record, error = measured(kind, request, history, stop, flags["name"])
            if record is None:
                if error is not None:
                    raise error
                say(NOTHING)
                return
            answered(kind, record, request.context, flags, error)


def answered(
    kind: Kind[Any, Any, Any], record: Any, context: Context, flags: dict[str, Any], error: Failure | None = None
) -> None:
    """Write and print the answer of a record, as ``--out`` and ``--json`` request. Raises ``error``, or another
    Failure.
    """
    data, words = _said(kind, record, context)
    unwritten = write_out(flags["out"], json_text(data))  # before printing, which may fail or be stopped
    if words is None and record.status not in ("cancelled", "interrupted"):
        error = error or Failure(data["reason"])
    if error is not None:
        conclude(None, None, error, unwritten)
    conclude(words, data if flags["as_json"] or words is None else None, unwritten)


def _said(kind: Kind[Any, R, Any], record: R, context: Context) -> tuple[dict[str, Any], str | None]:
    """Return a record's export and text; if too little was measured for an answer, the record and the reason."""
    try:
        answer = kind.answer(record, context)
    except UserError as error:
        say(str(error))
        return {"reason": str(error), "record": record.model_dump(mode="json")}, None  # type: ignore[attr-defined]
    return kind.export(record, answer, context), kind.text(record, answer, context)


def measured(
    kind: Task[Any, R], request: Asked, history: History, stop: Stop, name: str | None = None
) -> tuple[R | None, Failure | None]:
    """Measure in this thread, under the machine's lock, and store the record in the history.

    Returns the record, None if nothing was measured, and the failure that ended it early, unless it was stopped on
    request. Raises BadInput if a requested GPU cannot be used.
    """
    from core.machine.environment import refuse_unusable
    from core.studies.here import Instruments, measure_here

    with refusing():
        of_gpus = refuse_unusable(kind.targets(request.plan))
    for line in (*request.says, *of_gpus):
        say(line)
    last: Any = None
    instruments = Instruments() if request.launcher is None else Instruments(request.launcher)
    try:
        with shown_progress() as show:

            def report(progress: Progress) -> None:
                nonlocal last
                last = progress.record or last
                show(progress)

            recorder = history.queue or NullRecorder()
            return measure_here(kind, request.plan, recorder, report, stop, instruments, name=name), None
    except Cancelled:
        return None, None
    except (UserError, KeyboardInterrupt) as error:
        kept = last if last is not None and last.rounds else None
        if isinstance(error, UserError):
            return kept, Failure(str(error))
        return kept and kept.model_copy(update={"status": stop.status}), Failure("Stopped.")  # by the second signal


def measured_part(kind: Task[Any, R], request: Asked, store: bool) -> R:
    """Measure a record that a command needs for its answer.

    Raises Failure; exits the command with success if it was stopped before there was a result.
    """
    stop = Stop()
    with stop_signals(stop), History(store) as history:
        record, error = measured(kind, request, history, stop)  # type: ignore[arg-type]
    if error is not None:
        raise error
    if record is None:
        say(NOTHING)
        raise click.exceptions.Exit(0)
    return record


class History:
    """The store, without which a study still runs; failures to store are reported at the end."""

    def __init__(self, wanted: bool) -> None:
        self._store: Store | None = None
        self._wanted = wanted
        self.queue: StoreQueue | None = None

    def __enter__(self) -> History:
        if self._wanted:
            from core.store import Store, StoreError

            try:
                self._store = Store()
            except StoreError as error:
                raise Failure(f"{error} With --no-store a study runs without the history.") from None
            if self._store.notice is not None:
                say(self._store.notice)
            self.queue = StoreQueue(self._store)
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is None or self.queue is None:
            return
        self.queue.close()
        if (missing := self.queue.unwritten()) is not None:
            say(f"{missing} --out keeps what is measured.")
        self._store.close()

    def run(self, run_id: str) -> Run | None:
        """Return a stored run; None without a history, or if it has no such run."""
        from core.store import RunNotFound

        if self._store is None:
            return None
        try:
            return self._store.load(run_id)
        except RunNotFound:
            return None

    def records(self, kind: Kind[Any, R, Any]) -> tuple[R, ...]:
        """Return stored records of a kind, newest first; unreadable ones are reported and left out."""
        from core.store import StoreError

        if self._store is None:
            return ()
        try:
            return tuple(self._store.records(kind, say).values())
        except StoreError as error:
            say(str(error))
            return ()


@contextmanager
def stop_signals(stop: Stop) -> Iterator[None]:
    """Handle signals: the first ends the study in order, as cancelled or interrupted, a second one the program.

    SIGHUP is left alone if the program was started to ignore it, by nohup.
    """

    def asked(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            stop.set()
        else:
            stop.interrupt()
        with suppress(OSError):
            os.write(2, STOPPING)  # written directly, since a handler may interrupt a print

    heard = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    with ExitStack() as stack:
        for number in heard:
            stack.callback(signal.signal, number, signal.signal(number, asked))
        yield
