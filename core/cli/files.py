"""Flags and files that commands share, and how they refuse: one sentence, exit status 2 or 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from core.cli.terminal import Unprinted, say, show, show_json
from core.files import check_place, read_limited, reason, write_whole
from core.schema import explain
from core.studies.kind import Kind
from core.studies.registry import read_record
from core.studies.study import MAX_RECORD_BYTES
from core.studies.sweep.imports import MAX_BYTES, read_run
from core.studies.sweep.record import Run
from core.text import clean, shown

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class _File(click.ParamType):
    """A path as it was given; whatever reads or writes there says what is wrong with it."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)


FILE = _File()
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """One decorator of several, which keeps their order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class _Refusal(click.ClickException):
    """The message is one sentence, whatever the names in it hold."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))


class BadInput(_Refusal):
    """What was given cannot be used."""

    exit_code = 2


class Failure(_Refusal):
    """The input was fine and it went wrong all the same."""

    exit_code = 1


@contextmanager
def refusing(prefix: str = "") -> Iterator[None]:
    """Whatever a plan or file is refused for inside the block becomes BadInput, with one sentence."""
    try:
        yield
    except ValidationError as error:
        raise BadInput(prefix + explain(error)) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(prefix + str(error)) from None


def read_bytes(path: Path, limit_bytes: int, what: str) -> bytes:
    """A whole file that is to be ``what``. Raises BadInput."""
    with refusing():
        return read_limited(path, limit_bytes, what)


def read_file(path: Path) -> Run:
    """The run in a JSON or CSV file. Raises BadInput."""
    data = read_bytes(path, MAX_BYTES, "a run in JSON or CSV")
    with refusing(f"{shown(str(path))}: "):
        return read_run(data, path.name)


def check_writable(path: Path) -> None:
    """Raises BadInput when no file can be written there, before any work is done for it."""
    with refusing():
        check_place(path)


def write_out(path: Path | None, made: str | bytes) -> Failure | None:
    """Write what was asked for by ``--out``, and say so; why not, where the file cannot be written after all. A text
    ends its last line.
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
    """Print an answer, its data as JSON where there are any, and whatever went wrong before, then raise the first
    failure: neither costs the other.
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
    """A record of that kind from a file: the record itself, or what a command's --out wrote. Raises BadInput."""
    data = read_bytes(path, MAX_RECORD_BYTES, f"a {kind.record.noun}")
    with refusing(f"{shown(str(path))}: "):
        record: R = read_record(kind, data)
    return record
