"""What tests of the command line share."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
TARGETS = ("--targets", "cpu,threads=1", "cpu,threads=2")


def done(result: tuple[int, str, str]) -> tuple[str, str]:
    """What a command that ended with status 0 printed on standard output and error."""
    status, out, err = result
    assert status == 0, err
    return out, err


def as_json(result: tuple[int, str, str]) -> Any:
    """What a command with ``--json`` printed."""
    return json.loads(done(result)[0])


def refused(result: tuple[int, str, str]) -> str:
    """The sentence of a command that ended with status 2 and printed nothing else."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    return err


def holds(text: str, *sentences: str) -> None:
    """Each of the sentences stands in the text."""
    for sentence in sentences:
        assert sentence in text, sentence


def stop_at(
    workers: Any, monkeypatch: pytest.MonkeyPatch, second: float, number: signal.Signals = signal.SIGINT
) -> None:
    """Ctrl-C, or another signal, when the virtual clock passes that second."""
    advance = type(workers.clock).advance

    def advance_and_stop(clock: Any, seconds: float) -> None:
        before = clock.now_s()
        advance(clock, seconds)
        if before < second <= clock.now_s():
            signal.raise_signal(number)

    monkeypatch.setattr(type(workers.clock), "advance", advance_and_stop)
