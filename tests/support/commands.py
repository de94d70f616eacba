"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
TARGETS = ("--targets", "cpu,threads=1", "cpu,threads=2")


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
