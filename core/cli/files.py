"""Flags and files that commands share, and how they refuse: one sentence, exit status 2 or 1."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from core.cli.terminal import say
from core.schema import explain
from core.studies.kind import Kind
from core.studies.registry import read_record
from core.studies.sweep.imports import MAX_BYTES, check_size, read_run
from core.studies.sweep.record import Run

MAX_STUDY_BYTES = 64 * 2**20
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

FILE = click.Path(path_type=Path)
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """One decorator of several, which keeps their order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class BadInput(click.ClickException):
    """What was given cannot be used; the message is one sentence."""

    exit_code = 2


class Failure(click.ClickException):
    """The input was fine and it went wrong all the same; the message is one sentence."""

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


def read_bytes(path: Path, limit: int) -> bytes:
    """At most ``limit`` + 1 bytes of a file. Raises BadInput when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from None


def read_file(path: Path) -> Run:
    """The run in a JSON or CSV file; one too large is refused by its size, before it is read. Raises BadInput."""
    try:
        if path.is_file():
            check_size(path.stat().st_size)
        return read_run(read_bytes(path, MAX_BYTES), path.name)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def check_writable(path: Path) -> None:
    """Raises BadInput when no file can be written there, before any work is done for it."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written; --out takes a file in a folder that exists and can be written.")


def write_out(path: Path | None, text: str) -> None:
    """Write what was asked for by ``--out``, and say so. Raises Failure when the file cannot be written after all."""
    if path is None:
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} could not be written: {error.strerror or error}.") from None
    say(f"Wrote {path}.")


def json_text(data: Any) -> str:
    """One JSON object, as ``--json`` prints it and ``--out`` writes it."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)


def read_study(kind: Kind[Any, R, Any], path: Path) -> R:
    """A record of that kind from a file: the record itself, or what a command's --out wrote. Raises BadInput."""
    data = read_bytes(path, MAX_STUDY_BYTES)
    if len(data) > MAX_STUDY_BYTES:
        raise BadInput(f"{path} is too large for a {kind.record.noun}; accepted is JSON of up to 64 MiB.")
    with refusing(f"{path}: "):
        record: R = read_record(kind, data)
    return record
