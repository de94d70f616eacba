"""Files that commands read and write, and how they refuse: one sentence, exit status 2 or 1."""

from __future__ import annotations

import os
from pathlib import Path

import click

from core.imports import MAX_BYTES, check_size, read_run
from core.results import Run


class BadInput(click.ClickException):
    """What was given cannot be used; the message is one sentence."""

    exit_code = 2


class Failure(click.ClickException):
    """The input was fine and it went wrong all the same; the message is one sentence."""

    exit_code = 1


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


def write_file(path: Path, text: str) -> None:
    """Raises Failure when the file cannot be written after all."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} could not be written: {error.strerror or error}.") from None
