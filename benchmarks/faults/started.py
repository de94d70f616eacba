"""A real command in its own process: its workers, its end, its output, and the processes it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from benchmarks.faults.cases import Findings
from benchmarks.faults.entries import TRACEBACK
from core.base.schema import UserError
from core.rounds.run import Run
from core.store import Store
from simulated.made_up.states import SITE

ROOT = Path(__file__).parents[2]
MARK = "BREAKEVEN_FAULTS_CASE"
STOPPED_WITHIN_S = 3.0
GONE_WITHIN_S = 5.0  # time for leftover processes to end after the command
IN_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that a background program may have been started to ignore, as by nohup and shells; a case restores them."""
SWEEP = (
    "sweep", "--preset", "784-128-10", "--targets", "cpu,threads=1", "cpu,threads=2", "--batches", "1,8,64",
    "--no-refine", "--no-trace", "--out", "out.json",
)  # fmt: skip


class Started:
    """A started command. Every process that it starts carries the case's mark.

    ``made_up``: its workers have no real framework.
    """

    def __init__(
        self,
        *arguments: str,
        made_up: bool = True,
        module: str = "core",
        limits: Callable[[], None] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.mark = secrets.token_hex(8)
        paths = [str(SITE)] * made_up + [str(ROOT)]
        variables = {**os.environ, MARK: self.mark, "PYTHONPATH": os.pathsep.join(paths)} | (environment or {})
        self.begin_s = time.monotonic()
        self.log = Path(f"log-{self.mark}")

        def begin() -> None:
            for number in IN_A_TERMINAL:
                signal.signal(number, signal.SIG_DFL)
            if limits is not None:
                limits()

        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], env=variables, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=begin,
            )  # fmt: skip

    def wait(self, patience_s: float) -> float | None:
        """Wait for its end and return the seconds; kill it and return None if it does not end."""
        begin_s = time.monotonic()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        return time.monotonic() - begin_s

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def workers(self) -> list[psutil.Process]:
        """Return the running worker processes and templates."""
        running = []
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if any("worker.server" in part or "worker.template" in part for part in process.cmdline()):
                        running.append(process)
        return running

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def sleep(self, seconds: float) -> None:
        """Sleep, or less if the command ends before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    @property
    def output(self) -> str:
        return self.log.read_bytes()[-2_000_000:].decode("utf-8", "replace")

    def marked(self) -> list[psutil.Process]:
        """Return every process that was started for this case and still runs."""
        running = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                ours = process.pid != os.getpid() and process.environ().get(MARK) == self.mark
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    running.append(process)
        return running

    def check_left(self, findings: Findings) -> None:
        """Check that no process outlives the command, and end those that do."""
        end_s = time.monotonic() + GONE_WITHIN_S
        while (left := self.marked()) and time.monotonic() < end_s:
            time.sleep(0.1)
        names = [" ".join(process.cmdline())[-60:] for process in left if process.is_running()]
        findings.require(not left, "orphans", f"{len(left)} left: {names}")
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def check_output(self, findings: Findings, statuses: Sequence[int]) -> None:
        text = self.output
        if TRACEBACK in text:
            findings.add("tracebacks", text[text.rindex(TRACEBACK) :].strip().splitlines()[-1])
        status = self.process.returncode
        findings.require(status in statuses, "else", f"exit status {status}: {text[-200:]}")
        raw = {char for char in text if char not in "\n\t\r" and not char.isprintable()}
        findings.require(not raw, "else", f"raw control characters {sorted(map(ascii, raw))[:5]}")


def stored(findings: Findings) -> Run | None:
    """Return the only run in the store, read as by an app that starts now."""
    try:
        with closing(Store()) as store:
            store.mark_interrupted()
            summaries = store.summaries()
            return store.load(summaries[0].id) if summaries else None
    except UserError as error:
        findings.add("rounds lost", f"the store cannot be read: {error}")
    return None


def written(findings: Findings) -> Run | None:
    """Return the run that ``--out`` wrote."""
    path = Path("out.json")
    try:
        return Run.from_json(path.read_bytes()) if path.exists() else None
    except UserError as error:
        findings.add("rounds lost", f"--out was left cut: {error}")
    return None


def check_kept(findings: Findings) -> Run | None:
    """Check that the store and ``--out`` hold the same rounds, without gaps."""
    out, kept = written(findings), stored(findings)
    if out is not None:
        count = len(kept.rounds) if kept is not None else 0
        findings.require(count == len(out.rounds), "rounds lost", f"{count} of {len(out.rounds)} rounds in the store")
    for run in (out, kept):
        if run is not None:
            indices = [item.index for item in run.rounds]
            findings.require(indices == list(range(len(indices))), "rounds lost", "rounds with gaps")
    return kept if kept is not None else out


def command_data() -> Any:
    """Return what ``--out`` wrote, as plain data."""
    return json.loads(Path("out.json").read_text())
