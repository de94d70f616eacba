"""Cases in their own processes: forked from one that has everything loaded, watched for time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.faults.cases import CaseClass, Findings

MOST_CPU_S, MOST_BYTES = 10.0, 10**9
USUAL_BYTES = 200 * 10**6
"""Memory that a case holds at its start, inherited from the program that plays it: this in the campaign, gigabytes
among many tests.
"""
GUARD_BYTES = 3 * 10**9
"""Address space beyond the initial one: a case that wants more is stopped before the machine swaps."""
BUSY_S = 1.0  # of CPU time: a case with less by the end of its patience waits for something
LOADED = 4.0  # multiple of its patience that a working case may take on a loaded machine
POLL_S, LOOK_S = 0.002, 0.5


@dataclass
class _Child:
    """One case while it runs, in its own folder, which is also its TMPDIR."""

    of: CaseClass
    index: int
    pid: int
    folder: Path
    begin_s: float
    looked_s: float = 0.0
    late: bool = False

    def is_late(self) -> bool:
        """Check that its time is used up; evaluated only now and then."""
        now_s = time.monotonic()
        if self.late or now_s - self.looked_s < LOOK_S:
            return False
        self.looked_s, age_s, patience_s = now_s, now_s - self.begin_s, self.of.patience_s
        if not self.of.bounded:
            return age_s > patience_s
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self.pid).cpu_times()
            used_s = times.user + times.system
            return used_s > MOST_CPU_S or (age_s > patience_s and (used_s < BUSY_S or age_s > LOADED * patience_s))
        return False


def play(
    cases: Iterable[tuple[CaseClass, int]], seed: int, side_by_side: int
) -> Iterator[tuple[CaseClass, int, Findings]]:
    """Yield each case's findings, in the order in which they end. Call it before any thread is started."""
    waiting, running = deque(cases), list[_Child]()
    while waiting or running:
        while waiting and len(running) < side_by_side:
            running.append(_start(*waiting.popleft(), seed))
        for child in running:
            if child.is_late():
                child.late = True
                _kill(child.pid)
        ended = [(child, done) for child in running if (done := os.wait4(child.pid, os.WNOHANG))[0]]
        for child, (_, status, usage) in ended:
            running.remove(child)
            yield child.of, child.index, _findings(child, status, usage)
            shutil.rmtree(child.folder, ignore_errors=True)
        if not ended:
            time.sleep(POLL_S)


def _start(of: CaseClass, index: int, seed: int) -> _Child:
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return _Child(of, index, pid, folder, time.monotonic())
    status = 70
    try:
        os.setsid()
        (folder / "began").write_text(str(psutil.Process().memory_info().rss))
        _into(folder, of.bounded)
        findings = of.play(seed, index, (folder / "case").write_text)
        (folder / "findings").write_text(json.dumps([findings.case, findings.violations]))
        status = 0
    except BaseException as error:  # from the campaign itself, or one that no case may raise
        (folder / "findings").write_text(json.dumps(["", [("tracebacks", f"{type(error).__name__}: {error}"[:300])]]))
        status = 0
    finally:
        os._exit(status)


def _into(folder: Path, bounded: bool) -> None:
    """Enter the case's folder silently, with its own data and lock."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    work = folder / "work"
    work.mkdir()
    os.chdir(work)
    for name in ("data", "lock", "tmp"):
        (folder / name).mkdir()
    os.environ |= {
        "BREAKEVEN_DATA_DIR": str(folder / "data"),
        "BREAKEVEN_LOCK_DIR": str(folder / "lock"),
        "XDG_RUNTIME_DIR": str(folder / "lock"),
        "XDG_STATE_HOME": str(folder / "lock"),
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder),
    }
    tempfile.tempdir = str(folder / "tmp")
    if bounded:
        most = psutil.Process().memory_info().vms + GUARD_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def made_elsewhere(make: Callable[[], list[str]]) -> list[str]:
    """Return the result of ``make``, called in another process so that making an input does not count as reading it."""
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no parent waits for it, so its usage counts for nobody
    if not os.fork():
        try:
            os.write(writing, json.dumps(make()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123
        text = pipe.read()
    signal.signal(signal.SIGCHLD, before)
    made: list[str] = json.loads(text)
    return made


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)


def _findings(child: _Child, status: int, usage: resource.struct_rusage) -> Findings:
    findings = Findings()
    try:
        findings.case, violations = json.loads((child.folder / "findings").read_text())
        findings.violations = [(count, words) for count, words in violations]
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            findings.case = (child.folder / "case").read_text()
        if not child.late:
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            findings.add("tracebacks", f"the process ended with {signal.Signals(number).name if number else status}")
    took_s = usage.ru_utime + usage.ru_stime
    if child.late:
        findings.add(
            "over time", f"given up after {took_s:.1f} s of CPU, {time.monotonic() - child.begin_s:.0f} s by the clock"
        )
    elif child.of.bounded and took_s > MOST_CPU_S:
        findings.add("over time", f"{took_s:.1f} s of CPU")
    used_bytes = usage.ru_maxrss * 1024 - max(0, _began_bytes(child) - USUAL_BYTES)
    if child.of.bounded and used_bytes > MOST_BYTES:
        findings.add("over 1 GB", f"{used_bytes / 1e9:.1f} GB of memory")
    return findings


def _began_bytes(child: _Child) -> int:
    """Return the memory held at the case's start: less than the forked program's, since mapped files are not copied."""
    try:
        return int((child.folder / "began").read_text())
    except (OSError, ValueError):
        return 0
