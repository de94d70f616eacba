"""Shared support for tests of the command line."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
TARGETS = ("--targets", "cpu,threads=1", "cpu,threads=2")


def done(result: tuple[int, str, str]) -> tuple[str, str]:
    """Return standard output and error of a command that must end with status 0."""
    status, out, err = result
    assert status == 0, err
    return out, err


def as_json(result: tuple[int, str, str]) -> Any:
    """Return the parsed output of a command with ``--json``."""
    return json.loads(done(result)[0])


def refused(result: tuple[int, str, str]) -> str:
    """Return the sentence of a command that must end with status 2 and print nothing else."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    return err


def holds(text: str, *sentences: str) -> None:
    """Check that each of the sentences is in the text."""
    for sentence in sentences:
        assert sentence in text, sentence


def stop_at(
    workers: Any, monkeypatch: pytest.MonkeyPatch, second: float, number: signal.Signals = signal.SIGINT
) -> None:
    """Send Ctrl-C, or another signal, when the virtual clock passes that second."""
    advance = type(workers.clock).advance

    def advance_and_stop(clock: Any, seconds: float) -> None:
        before = clock.now_s()
        advance(clock, seconds)
        if before < second <= clock.now_s():
            signal.raise_signal(number)

    monkeypatch.setattr(type(workers.clock), "advance", advance_and_stop)
