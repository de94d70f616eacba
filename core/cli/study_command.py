"""One shape for the commands that measure: flags, progress, Ctrl-C, the history, ``--out``, exit status.

Ctrl-C or SIGTERM ends a study and keeps what was measured, as pressing Cancel on a page does.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.cli.files import FILE, Failure, check_writable, json_text, together, write_out
from core.cli.terminal import say, shown_progress
from core.schema import UserError
from core.studies.kind import Context, Kind
from core.studies.progress import Progress
from core.studies.runner import Cancelled, StudyTools, watching
from core.studies.study import new_id
from core.worker.protocol import Launcher

if TYPE_CHECKING:
    from core.store import Store

STOPPING = b"\nStopping; what was measured is kept.\n"
NOTHING = "Stopped before the first round; nothing was measured."
R = TypeVar("R")


@dataclass(frozen=True)
class Asked:
    """What a command was asked for: the plan, what its answer rests on, what to say first, and, where workers need a
    permission, what starts them.
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
    """Decorator: a command that runs a study of that kind.

    The decorated function makes the plan from the flags, raising BadInput; its docstring is the command's help. Flags
    that it is decorated with come first.
    """
    flags = together(
        click.option("--out", type=FILE, help="Write what it says and was measured, in JSON."),
        click.option("--json", "as_json", is_flag=True, help="Print that JSON."),
        click.option("--name", help="Name in the history."),
        store_option,
    )

    def decorate(make: Make) -> click.Command:
        def command(**given: Any) -> None:
            _run(kind, make, given)

        params = list(reversed(getattr(make, "__click_params__", [])))
        return flags(click.command(name or kind.name, help=make.__doc__, params=params)(command))

    return decorate


def _run(kind: Kind[Any, Any, Any], make: Make, given: dict[str, Any]) -> None:
    out: Path | None = given["out"]
    if out is not None:
        check_writable(out)
    cancel = threading.Event()
    with stop_signals(cancel), History(given["store"]) as history:
        asked = make(given, history)
        for line in asked.says:
            say(line)
        record, error = measured(kind, asked, history, cancel, given["name"])
    if record is None:
        if error is not None:
            raise error
        say(NOTHING)
        return
    data, words = _said(kind, record, asked.context)
    text = json_text(data)
    write_out(out, text)
    if error is not None:
        raise error
    if words is None and record.status != "cancelled":
        raise Failure(data["reason"])
    click.echo(text if given["as_json"] or words is None else words)


def _said(kind: Kind[Any, R, Any], record: R, context: Context) -> tuple[dict[str, Any], str | None]:
    """The export and the text of a record; where too little was measured for an answer, the record and why."""
    try:
        answer = kind.answer(record, context)
    except UserError as error:
        say(str(error))
        return {"reason": str(error), "record": record.model_dump(mode="json")}, None  # type: ignore[attr-defined]
    return kind.export(record, answer, context), kind.text(record, answer, context)


def measured(
    kind: Kind[Any, R, Any], asked: Asked, history: History, cancel: threading.Event, name: str | None = None
) -> tuple[R | None, Failure | None]:
    """Measure in this thread, under the machine's lock, and keep the record in the history.

    The record, None where nothing was measured; and what ended it early other than a wish to stop.
    """
    from core.machine.interference import InterferenceSampler
    from core.machine.lock import machine_lock
    from core.worker import clock, process

    last: Any = None
    try:
        with machine_lock(kind.describe(asked.plan)), watching(InterferenceSampler) as source, shown_progress() as show:

            def report(progress: Progress) -> None:
                nonlocal last
                last = progress.record or last
                show(progress)

            launcher = asked.launcher or process.launch_processes
            record = kind.run(StudyTools(launcher, clock.WallClock(), cancel, source, report, history), asked.plan)
    except Cancelled:
        return None, None
    except UserError as error:
        return (last if last is not None and last.rounds else None), Failure(str(error))
    if not kind.streams:
        history.add_study(kind.name, new_id(), record, name)
    return record, None


def measured_part(kind: Kind[Any, R, Any], asked: Asked, store: bool) -> R:
    """A record that a command needs for its answer, measured now. Raises Failure; leaves the command, with success,
    where it was stopped before there was anything.
    """
    cancel = threading.Event()
    with stop_signals(cancel), History(store) as history:
        record, error = measured(kind, asked, history, cancel)  # type: ignore[arg-type]
    if error is not None:
        raise error
    if record is None:
        say(NOTHING)
        raise click.exceptions.Exit(0)
    return record


class History:
    """The store, without which a study still goes on: the first thing that fails is said, then it is left alone."""

    def __init__(self, wanted: bool) -> None:
        self._store: Store | None = None
        self._wanted = wanted

    def __enter__(self) -> History:
        if self._wanted:
            from core.store import Store, StoreError

            try:
                self._store = Store()
            except StoreError as error:
                raise Failure(f"{error} With --no-store a study runs without the history.") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def begin(self, run: Any) -> None:
        self._try(lambda store: store.begin(run))

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:
        self._try(lambda store: store.record(run_id, records))

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None:
        self._try(lambda store: store.finish(run_id, status, elapsed_s))

    def delete(self, run_id: str) -> None:
        self._try(lambda store: store.delete(run_id))

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:
        def add(store: Store) -> None:
            store.add_study(kind, study_id, record)
            if name is not None:
                store.rename(study_id, name)

        self._try(add)

    def records(self, kind: Kind[Any, R, Any]) -> tuple[R, ...]:
        """Stored records of a kind, newest first; those that cannot be read are left out."""
        records: list[R] = []

        def read(store: Store) -> None:
            for summary in store.summaries(kind.name):
                with suppress(UserError):
                    records.append(store.study(kind, summary.id))

        self._try(read)
        return tuple(records)

    def _try(self, act: Callable[[Store], None]) -> None:
        from core.store import StoreError

        if self._store is None:
            return
        try:
            act(self._store)
        except StoreError as error:
            self._store.close()
            self._store = None
            say(f"The history stopped: {error} The study goes on without it; --out keeps what is measured.")


@contextmanager
def stop_signals(cancel: threading.Event) -> Iterator[None]:
    """The first signal cancels the study, which then ends in order; a second one ends the program."""

    def stop(_: int, __: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        with suppress(OSError):
            os.write(2, STOPPING)  # a handler may interrupt a print, so it does not print

    names = ("SIGINT", "SIGTERM", "SIGHUP")
    with ExitStack() as stack:
        for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
            stack.callback(signal.signal, number, signal.signal(number, stop))
        yield
