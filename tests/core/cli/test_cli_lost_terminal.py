"""Measurements survive the loss of the terminal: closed pipes, a full disk, a hang-up, a second Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.store import Store
from simulated.commands import TARGETS, Command
from simulated.simulation import Machine

pytestmark = pytest.mark.processes

FULL = os.strerror(errno.ENOSPC)
ROOT = Path(__file__).parents[3]
SWEEP = ("sweep", *TARGETS, "--batches", "1,64", "--budget", "10", "--no-trace", "--out", "out.json")
SIMULATED = """
import core.machine.interference, core.worker.clock, core.worker.process, os, signal, sys
from core.cli import main
from simulated.simulation import Curve, Machine
machine = Machine(curves=(Curve(0.3, 0.01), Curve(0.8, 0.004)))
core.worker.process.launch_processes = machine.launch
core.worker.clock.WallClock = lambda: machine.clock
core.machine.interference.InterferenceSampler = lambda: None
sys.exit(main(sys.argv[1:]))
"""


def started(tmp_path: Path, *more: str, **streams: Any) -> subprocess.Popen[str]:
    """Start a sweep on simulated workers, in its own process."""
    return subprocess.Popen(
        [sys.executable, "-c", SIMULATED, *SWEEP, *more], cwd=tmp_path, text=True,
        env=environment(), **streams,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """Return the usual, buffered environment, in which unwritten output is retried at the end of the process."""
    unbuffered = "PYTHONUNBUFFERED"
    return {name: value for name, value in os.environ.items() if name != unbuffered} | {"PYTHONPATH": str(ROOT)}


def is_kept(tmp_path: Path, status: str = "finished") -> bool:
    """Check that the file and the store both hold the run with its rounds."""
    written = json.loads((tmp_path / "out.json").read_text())
    store = Store()
    (summary,) = store.summaries()
    store.close()
    return bool(written["rounds"]) and written["status"] == summary.status == status and summary.rounds > 0


def test_whoever_reads_progress_may_leave(tmp_path: Path) -> None:
    process = started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    answer = process.stdout.read()
    assert process.wait() == 0
    assert answer
    assert is_kept(tmp_path)


def test_whoever_reads_the_answer_may_leave(tmp_path: Path) -> None:
    process = started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate()
    assert process.returncode == 1
    assert said.splitlines()[-2] == "Wrote out.json."
    assert said.endswith(": Broken pipe.\n")
    assert is_kept(tmp_path)


def test_a_full_disk_for_the_answer_is_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = started(tmp_path, stdout=full, stderr=subprocess.PIPE)
        _, said = process.communicate()
    assert process.returncode == 1
    assert said.endswith(f": {FULL}.\n")
    assert is_kept(tmp_path)


def test_a_terminal_that_hangs_up_loses_nothing(tmp_path: Path) -> None:
    """Close its own end while the bar is drawn, so that every later write fails."""
    ours, theirs = pty.openpty()
    process = started(tmp_path, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    assert process.wait() == 1
    assert is_kept(tmp_path)


def test_a_file_that_cannot_be_written_costs_no_answer(
    cli: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.json").write_text("old")
    before = cli(*SWEEP[:-2], "--no-store")[1].splitlines()[0]

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, out, err = cli(*SWEEP)
    assert status == 1
    assert out.splitlines()[0].split()[0] == before.split()[0]
    assert err.splitlines()[-1].startswith("out.json could not")
    assert (tmp_path / "out.json").read_text() == "old"
    assert machine.open_workers == 0


def test_a_second_ctrl_c_ends_at_once_and_keeps_what_was_measured(
    cli: Command, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    advance = type(machine.clock).advance

    def advance_and_stop_twice(clock: Any, seconds: float) -> None:
        before = clock.now_s()
        advance(clock, seconds)
        if before < 8.0 <= clock.now_s():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(type(machine.clock), "advance", advance_and_stop_twice)
    status, out, err = cli(*SWEEP)
    assert (status, out) == (1, "")
    assert err.splitlines()[-2:] == ["Wrote out.json.", "Stopped."]
    written = json.loads((tmp_path / "out.json").read_text())
    assert (bool(written["rounds"]), written["status"]) == (True, "cancelled")
    store = Store()
    (summary,) = store.summaries()
    store.close()
    assert (summary.rounds > 0, summary.status) == (True, "cancelled")
    assert machine.open_workers == 0


@pytest.mark.parametrize("arguments", [["gpus"], ["--help"], ["sweep", "--help"], ["--version"]], ids=" ".join)
def test_what_nobody_can_read_is_one_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "core", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=environment(),
        )  # fmt: skip
    assert (done.returncode, done.stderr.partition(": ")[2]) == (1, f"{FULL}.\n")
