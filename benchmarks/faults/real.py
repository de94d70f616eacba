"""Real faults: signals to workers, commands and a server, user code, a full disk, a locked store, limits of memory."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil

from benchmarks.faults.cases import FIRST_HANG_S, LATE_S, LATE_SHARE, CaseClass, Findings
from benchmarks.faults.good import changed_data
from benchmarks.faults.started import STOPPED_WITHIN_S, SWEEP, Started, check_kept, command_data, stored, written
from benchmarks.faults.user_code import CODES, HEAD
from core.store import Store

MADE_UP_S, REAL_S, CODE_S = 6.0, 20.0, 15.0  # budgets
END_S = 8.0  # for closing workers, the store and Python itself
CGROUP = Path("/sys/fs/cgroup/memory")
HELD_BYTES = 1_600_000_000


def _budget(made_up: bool) -> tuple[float, tuple[str, ...]]:
    budget_s = MADE_UP_S if made_up else REAL_S
    return budget_s, (*SWEEP, "--budget", f"{budget_s:g}")


def _worker_signal(random_: random.Random, index: int, findings: Findings, made_up: bool) -> None:
    number = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)[index % 3]
    budget_s, sweep = _budget(made_up)
    after_s = random_.uniform(0.1, budget_s)
    findings.about(f"{number.name} after {after_s:.1f} s")
    command = Started(*sweep, made_up=made_up)
    command.sleep(after_s)
    while not command.has_ended() and not (there := command.workers()):
        time.sleep(0.02)
    if not command.has_ended():
        with contextlib.suppress(psutil.Error):
            random_.choice(there).send_signal(number)
    late_s = FIRST_HANG_S if number == signal.SIGSTOP else LATE_S
    allowed_s = (1 + LATE_SHARE) * budget_s + late_s + END_S - after_s
    took_s = command.wait(150.0)
    findings.require(took_s is not None and took_s <= allowed_s, "over time", f"ended {took_s} s later")
    command.check_output(findings, (0,))
    command.check_left(findings)
    run = check_kept(findings)
    findings.require(run is not None and bool(run.rounds), "rounds lost", f"no round: {command.output[-200:]}")


def worker_signal(random_: random.Random, index: int, findings: Findings) -> None:
    _worker_signal(random_, index, findings, made_up=True)


def real_worker_signal(random_: random.Random, index: int, findings: Findings) -> None:
    _worker_signal(random_, index, findings, made_up=False)


ENDS = {
    "SIGINT": ("cancelled", "finished"),
    "SIGTERM": ("interrupted", "finished"),
    "SIGHUP": ("interrupted", "cancelled", "finished"),
    "SIGQUIT": ("interrupted", "finished"),
    "SIGKILL": ("interrupted", "finished"),
}
"""Allowed statuses of a run after each signal."""


def _command_signal(random_: random.Random, index: int, findings: Findings, made_up: bool) -> None:
    number = signal.Signals[sorted(ENDS)[index % len(ENDS)]]
    budget_s, sweep = _budget(made_up)
    after_s = random_.uniform(0.3, budget_s * 0.9)
    twice = number == signal.SIGINT and index % 2 == 1
    findings.about(f"{number.name}{' twice' * twice} after {after_s:.1f} s")
    command = Started(*sweep, made_up=made_up)
    command.sleep(after_s)
    was_over = command.has_ended()
    command.send(number)
    if twice:
        command.sleep(0.2)
        command.send(number)
    took_s = command.wait(60.0)
    findings.require(took_s is not None and took_s <= STOPPED_WITHIN_S, "over time", f"{took_s} s after {number.name}")
    hard = number in (signal.SIGKILL, signal.SIGQUIT)
    command.check_output(findings, (0, 1, -number) if hard or twice or number == signal.SIGHUP else (0, 1, 130, 143))
    command.check_left(findings)
    run = stored(findings)
    if run is not None and not was_over:
        findings.require(run.status in ENDS[number.name], "else", f"status {run.status} after {number.name}")
    if not hard and not twice:
        check_kept(findings)
        out = written(findings)
        told = run is not None and bool(run.rounds)
        findings.require(not told or out is not None, "rounds lost", "--out was not written")


def command_signal(random_: random.Random, index: int, findings: Findings) -> None:
    _command_signal(random_, index, findings, made_up=True)


def real_command_signal(random_: random.Random, index: int, findings: Findings) -> None:
    _command_signal(random_, index, findings, made_up=False)


def server_signal(random_: random.Random, index: int, findings: Findings) -> None:
    """End the server during a sweep of the dashboard: the sweep can be resumed."""
    number = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT)[index % 4]
    after_s = random_.uniform(0.5, 6.0)
    findings.about(f"{number.name} after {after_s:.1f} s")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Started(str(port), "60", module="benchmarks.faults.serving")
    end_s = time.monotonic() + 40.0
    while not server.has_ended() and not server.workers() and time.monotonic() < end_s:
        time.sleep(0.05)
    findings.require(bool(server.workers()), "else", f"the sweep did not start: {server.output[-200:]}")
    server.sleep(after_s)
    server.send(number)
    took_s = server.wait(45.0)
    findings.require(took_s is not None and took_s <= 10.0, "over time", f"{took_s} s after {number.name}")
    server.check_output(findings, (0, 1, -number, 128 + number))
    server.check_left(findings)
    run = stored(findings)
    if run is not None:
        allowed = ("interrupted", "cancelled") if number == signal.SIGINT else ("interrupted",)
        findings.require(run.status in allowed, "else", f"status {run.status} after {number.name}")


def user_code(_: random.Random, index: int, findings: Findings) -> None:
    """Run the user's own code: its children end with it, and what it raises becomes one sentence."""
    code = CODES[index % len(CODES)]
    findings.about(code.name)
    Path("odd.py").write_text(f"{HEAD}    {code.body}\n")
    command = Started(
        "sweep", "--model", "odd:make", *SWEEP[3:6], "--batches", "1,8", "--no-refine", "--no-trace", "--out",
        "out.json", "--budget", f"{CODE_S:g}", made_up=False,
    )  # fmt: skip
    if code.then:
        command.sleep(12.0)
        command.send(signal.SIGINT if code.then == "interrupt" else signal.SIGKILL)
    took_s = command.wait(100.0)
    allowed_s = STOPPED_WITHIN_S if code.then == "interrupt" else 70.0
    findings.require(took_s is not None and took_s <= allowed_s, "over time", f"{took_s} s until it ended")
    command.check_output(findings, (-9,) if code.then == "kill" else (0, 1) if code.measures else (1, 2))
    command.check_left(findings)
    if code.measures and not code.then:
        run = check_kept(findings)
        nan = "NaN" in code.name and " nan" in command.output  # before the first round, as the message says
        some = nan or (run is not None and bool(run.rounds))
        findings.require(some, "rounds lost", f"no round: {command.output[-200:]}")
    if not code.measures and not code.then:
        findings.require("odd" in command.output, "else", f"who is to blame is not said: {command.output[-200:]}")


# -- disk and store ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Mount a file system of that size, if this user may."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", folder], capture_output=True)


def _measured(findings: Findings, *more: str, **named: object) -> Started:
    """Run a sweep to its end, the basis of the following cases."""
    command = Started(*_budget(True)[1], *more, **named)  # type: ignore[arg-type]
    took_s = command.wait(100.0)
    allowed_s = (1 + LATE_SHARE) * MADE_UP_S + LATE_S
    findings.require(took_s is not None and took_s <= allowed_s, "over time", f"{took_s} s")
    return command


def _whole(findings: Findings, command: Started) -> None:
    """Check that the command ended in order and ``--out`` holds the measurements."""
    command.check_output(findings, (0,))
    run = written(findings)
    findings.require(run is not None and bool(run.rounds), "rounds lost", f"no round in --out: {command.output[-200:]}")


def locked_store(random_: random.Random, findings: Findings, before: bool, released: bool) -> None:
    with closing(Store()) as store:
        path = store.where
    db = sqlite3.connect(path, isolation_level=None)
    if before:
        db.execute("BEGIN IMMEDIATE")
    command = Started(*_budget(True)[1])
    command.sleep(random_.uniform(1.5, 4.0))
    if not before:
        db.execute("BEGIN IMMEDIATE")
    if released:
        command.sleep(2.0)
        db.execute("ROLLBACK")
    took_s = command.wait(100.0)
    if not released:
        db.execute("ROLLBACK")
    db.close()
    findings.require(took_s is not None and took_s <= MADE_UP_S + 20.0, "over time", f"{took_s} s while it was locked")
    _whole(findings, command)
    if released:
        check_kept(findings)
    command.check_left(findings)


def full_data_disk(_: random.Random, findings: Findings) -> None:
    with _small_disk(Path("small").resolve(), "120k") as mounted:
        variables = {"BREAKEVEN_DATA_DIR": str(Path("small").resolve())} if mounted else {}
        command = _measured(findings, environment=variables)
        _whole(findings, command)
        command.check_left(findings)


def full_out_disk(_: random.Random, findings: Findings) -> None:
    """Fill the disk of ``--out``: the old file is left whole."""
    with _small_disk(Path("small").resolve(), "8k") as mounted:
        old = Path("small/out.json")
        old.write_text("old")
        command = _measured(findings, "--no-store", "--out", str(old))
        if mounted:
            findings.require(old.read_text() == "old", "rounds lost", "the old file is gone, the new one is cut")
        command.check_output(findings, (1,) if mounted else (0,))
        command.check_left(findings)


def full_device(_: random.Random, findings: Findings) -> None:
    command = _measured(findings, "--no-store", "--out", "/dev/full")
    command.check_output(findings, (1, 2))
    command.check_left(findings)


def small_files(random_: random.Random, findings: Findings) -> None:
    """Set the system's limit on file size: the remaining files are whole."""
    room = random_.choice((2_000, 20_000, 60_000))

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    command = _measured(findings, limits=limits)
    findings.require("Traceback" not in command.output, "tracebacks", command.output[-200:])
    written(findings)
    command.check_left(findings)


def store_taken_away(random_: random.Random, findings: Findings, how: str) -> None:
    with closing(Store()) as store:
        path = Path(store.where)
    command = Started(*_budget(True)[1])
    command.sleep(random_.uniform(1.0, 4.0))
    if how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        for file in path.parent.glob("*"):
            file.unlink()
    command.wait(100.0)
    _whole(findings, command)
    command.check_left(findings)


DISK: tuple[tuple[str, Callable[[random.Random, Findings], None]], ...] = (
    ("store locked before, then free", lambda r, f: locked_store(r, f, True, True)),
    ("store locked throughout", lambda r, f: locked_store(r, f, True, False)),
    ("store locked during", lambda r, f: locked_store(r, f, False, True)),
    ("store locked from then on", lambda r, f: locked_store(r, f, False, False)),
    ("disk of the store full", full_data_disk),
    ("disk of --out full", full_out_disk),
    ("--out /dev/full", full_device),
    ("limit of a file's size", small_files),
    ("store cut", lambda r, f: store_taken_away(r, f, "cut")),
    ("store removed", lambda r, f: store_taken_away(r, f, "removed")),
)


def disk(random_: random.Random, index: int, findings: Findings) -> None:
    name, check = DISK[index % len(DISK)]
    findings.about(name)
    check(random_, findings)


# -- memory ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _held() -> Iterator[Callable[[], None] | None]:
    """Yield a function that puts a process into a cgroup of 1.6 GB; None if this user may not make one."""
    group = CGROUP / f"breakeven-faults-{os.getpid()}"
    new = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    if new:
        group = Path("/sys/fs/cgroup") / group.name
    try:
        group.mkdir()
        (group / ("memory.max" if new else "memory.limit_in_bytes")).write_text(str(HELD_BYTES))
    except OSError:
        yield None
        return
    try:
        yield lambda: print(os.getpid(), file=(group / "cgroup.procs").open("w"), flush=True)
    finally:
        with contextlib.suppress(OSError):
            time.sleep(0.5)
            group.rmdir()


def _address_space() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))


HELD = ("search in a container", "sweep in a container", "search in an address space", "search for 4 GB in a container")


def memory_limit(_: random.Random, index: int, findings: Findings) -> None:
    """Run a search and a sweep in a container of 1.6 GB, and in an address space of 4 GB."""
    what = HELD[index % len(HELD)]
    findings.about(what)
    search = ("memory", "--preset", "784-2048-2048-10", "--budget", "40", "--out", "out.json")
    arguments = _budget(False)[1] if "sweep" in what else (*search, *(("--limit", "4GB") if "4 GB" in what else ()))
    with _held() as held:
        if held is None and "container" in what:
            findings.about(f"{what} (not possible here)")
            return
        command = Started(*arguments, made_up=False, limits=held if "container" in what else _address_space)
        took_s = command.wait(130.0)
        findings.require(took_s is not None, "over time", "not done after 130 s")
        command.check_output(findings, (0, 1, 2))
        command.check_left(findings)
    if "memory" in arguments and "container" in what and Path("out.json").exists():
        limit = command_data()["record"]["plan"]["limit_bytes"]
        words = f"{limit / 1e9:.1f} GB are said to be what was searched, in a container of 1.6 GB"
        findings.require(limit <= HELD_BYTES, "wrong numbers", words)
    if "sweep" in what:
        run = written(findings)
        findings.require(run is not None and bool(run.rounds), "rounds lost", f"no round: {command.output[-200:]}")


def data_for_tensorflow(random_: random.Random, index: int, findings: Findings) -> None:
    """Change data files so that only reading the samples reveals it."""
    name = changed_data(random_, index, findings)
    fed = ("--preset", "12-8-4", "--pipeline", "tfdata", "--data", name, "--out", "out.json")
    command = Started("sweep", *SWEEP[3:6], "--batches", "1,2", "--budget", "6", "--no-trace", *fed, made_up=False)
    took_s = command.wait(100.0)
    findings.require(took_s is not None, "over time", "not done after 100 s")
    command.check_output(findings, (0, 1, 2))
    command.check_left(findings)


def side_by_side(_: random.Random, index: int, findings: Findings) -> None:
    """Start several commands at once: one measures, the others report that."""
    count = 2 + index
    findings.about(f"{count} at once")
    commands = [Started(*SWEEP[:-1], f"{n}.json", "--budget", f"{MADE_UP_S:g}") for n in range(count)]
    for command in commands:
        command.wait(60.0)
    statuses = sorted(command.process.returncode for command in commands)
    findings.require(statuses.count(0) == 1, "else", f"exit statuses {statuses}")
    for command in commands:
        command.check_output(findings, (0, 1, 2))
        command.check_left(findings)
        busy = re.search(r"measuring", command.output)
        findings.require(command.process.returncode == 0 or busy is not None, "else", command.output[-200:])


def _class(name: str, cases: int, check: Callable[[random.Random, int, Findings], None]) -> CaseClass:
    return CaseClass(name, "real", cases, check, patience_s=240.0)


CLASSES = (
    _class("signal to a worker", 12, worker_signal),
    _class("signal to a TensorFlow worker", 6, real_worker_signal),
    _class("signal to the command", 15, command_signal),
    _class("signal to it, TensorFlow", 5, real_command_signal),
    _class("signal to the server", 8, server_signal),
    _class("user code", len(CODES), user_code),
    _class("disk and store", len(DISK), disk),
    _class("limits of memory", 4, memory_limit),
    _class("own data, TensorFlow", 7, data_for_tensorflow),
    _class("commands side by side", 2, side_by_side),
)
