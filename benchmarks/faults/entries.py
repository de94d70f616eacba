"""The product's own entry points, called in this process: a command's output, its end, and the checks on both."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.faults.cases import Findings
from core.cli import main
from simulated.kinds import STILL
from simulated.simulation import Curve, Machine

TRACEBACK = "Traceback (most recent call last)"
LONGEST_SENTENCE = 2_000
CURVES = (Curve(0.3, 0.02), Curve(0.9, 0.003))


@dataclass(frozen=True)
class CommandResult:
    """The end of a command. ``error`` is what a user would see as a traceback."""

    status: int
    out: str
    err: str
    error: str = ""


def run(*arguments: str) -> CommandResult:
    """Run a command and read its output back as a terminal would get it."""
    status, error = 1, ""
    with _captured() as (out, err):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException as failure:
            place = traceback.extract_tb(failure.__traceback__)[-1]
            error = f"{type(failure).__name__}: {str(failure)[:150]} ({Path(place.filename).name}:{place.lineno})"
    return CommandResult(status, _text(out), _text(err), error)


@contextlib.contextmanager
def _captured() -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Capture stdout and stderr through pipes, which a limit on file sizes does not stop."""
    pieces: tuple[list[bytes], list[bytes]] = ([], [])
    ends, threads, copies = [], [], [os.dup(1), os.dup(2)]
    for number, into in enumerate(pieces, 1):
        reading, writing = os.pipe()
        os.dup2(writing, number)
        os.close(writing)
        threads.append(threading.Thread(target=_drain, args=(reading, into)))
        threads[-1].start()
        errors = "strict" if number == 1 else "backslashreplace"  # like Python's own streams
        stream = open(number, "wb", buffering=0, closefd=False)  # noqa: SIM115
        ends.append(io.TextIOWrapper(stream, "utf-8", errors, write_through=True))
    try:
        with contextlib.redirect_stdout(ends[0]), contextlib.redirect_stderr(ends[1]):
            yield pieces
    finally:
        for number, copy in enumerate(copies, 1):
            os.dup2(copy, number)
            os.close(copy)
        for thread in threads:
            thread.join(5.0)


def _drain(reading: int, into: list[bytes]) -> None:
    while piece := os.read(reading, 1 << 16):
        into.append(piece)
    os.close(reading)


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


def check_result(result: CommandResult, findings: Findings, statuses: Sequence[int] = (0, 1, 2)) -> None:
    """Check for no traceback, a documented exit status, one sentence per refusal, and nothing that a terminal obeys."""
    text = result.out + result.err
    if result.error or TRACEBACK in text:
        last = result.error or text[text.index(TRACEBACK) :].strip().splitlines()[-1]
        findings.add("tracebacks", last)
        return
    findings.require(result.status in statuses, "else", f"exit status {result.status}: {result.err[-200:]}")
    raw = {char for char in text if char not in "\n\t" and not char.isprintable()}
    findings.require(not raw, "else", f"raw control characters {sorted(map(ascii, raw))[:5]}")
    if result.status == 2:
        findings.require(not result.out, "else", f"refused, but printed {result.out[:80]!r}")
        lines = result.err.strip().count("\n") + 1
        findings.require(
            bool(result.err.strip()) and lines == 1, "else", f"{lines} lines for a refusal: {result.err[:200]!r}"
        )
        findings.require(len(result.err) <= LONGEST_SENTENCE, "else", f"a refusal of {len(result.err)} characters")


@contextlib.contextmanager
def simulated_workers(launch: Callable[..., Any] | None = None, machine: Any = None) -> Iterator[Machine]:
    """Replace real workers by simulated ones on a virtual clock, for commands of this process."""
    machine = machine or Machine(CURVES, STILL, startup_s=2.0, prepare_s=0.3)
    with (
        patch("core.worker.process.launch_processes", launch or machine.launch),
        patch("core.worker.clock.WallClock", lambda: machine.clock),
        patch("core.machine.interference.InterferenceSampler", lambda: None),
        patch("core.machine.meter.Meter", lambda: None),
    ):
        yield machine
