"""Flags, files and errors shared by commands: an error is one sentence with exit status 2 or 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from core.base.files import check_place, read_limited, reason, write_whole
from core.base.schema import explain
from core.base.text import clean, shown
from core.cli.terminal import Unprinted, say, show, show_json
from core.rounds.run import Run
from core.rounds.show.imports import MAX_BYTES, read_run
from core.rounds.study import MAX_RECORD_BYTES
from core.studies.kind import Kind
from core.studies.registry import read_record

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class _File(click.ParamType):
    """A path as given; reading or writing it reports any problem."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)


FILE = _File()
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combine decorators into one that keeps their order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class _Refusal(click.ClickException):
    """Base of errors whose message is one clean sentence, whatever the names quoted in it contain."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))


class BadInput(_Refusal):
    """The input cannot be used."""

    exit_code = 2


class Failure(_Refusal):
    """The operation failed although the input was valid."""

    exit_code = 1


@contextmanager
def refusing(prefix: str = "") -> Iterator[None]:
    """Convert any refusal of a plan or file inside the block to BadInput, with one sentence."""
    try:
        yield
    except ValidationError as error:
        raise BadInput(prefix + explain(error)) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(prefix + str(error)) from None


def read_bytes(path: Path, limit_bytes: int, what: str) -> bytes:
    """Return the content of a file; ``what`` names what it should be, in errors. Raises BadInput."""
    with refusing():
        return read_limited(path, limit_bytes, what)


def read_file(path: Path) -> Run:
    """Return the run in a JSON or CSV file. Raises BadInput."""
    data = read_bytes(path, MAX_BYTES, "a run in JSON or CSV")
    with refusing(f"{shown(str(path))}: "):
        return read_run(data, path.name)


def check_writable(path: Path) -> None:
    """Raise BadInput if no file can be written there, before any work is done for it."""
    with refusing():
        check_place(path)


def write_out(path: Path | None, made: str | bytes) -> Failure | None:
    """Write the file of ``--out`` and report it; return the failure if it cannot be written after all.

    A text is ended with a line break.
    """
    if path is None:
        return None
    try:
        write_whole(path, made if isinstance(made, bytes) else made.removesuffix("\n") + "\n")
    except OSError as error:
        return Failure(f"{path} could not be written: {reason(error)}.")
    say(f"Wrote {path}.")
    return None


def conclude(words: str | None, data: Any, *failures: Failure | None) -> None:
    """Print an answer, or its data as JSON if given, then raise the first failure.

    Earlier failures do not prevent printing, and a failed print does not hide them.
    """
    lost: Unprinted | None = None
    try:
        if data is not None:
            show_json(data)
        elif words is not None:
            show(words)
    except Unprinted as error:
        lost = error
    for failure in (*failures, lost):
        if failure is not None:
            raise failure


def read_study(kind: Kind[Any, R, Any], path: Path) -> R:
    """Read a record of that kind from a file: the record itself, or the file of a command's --out. Raises BadInput."""
    data = read_bytes(path, MAX_RECORD_BYTES, f"a {kind.record.noun}")
    with refusing(f"{shown(str(path))}: "):
        record: R = read_record(kind, data)
    return record
