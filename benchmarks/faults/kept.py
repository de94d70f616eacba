"""Faults of the history during a measurement: measured data are kept, and nothing waits for the disk."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from benchmarks.faults.cases import CaseClass, Findings
from benchmarks.faults.entries import check_result, run, simulated_workers
from benchmarks.faults.planted import FaultyMachine, Planted
from benchmarks.faults.scenarios import MAKE, numbers_of
from core.base.schema import UserError
from core.rounds.run import Run
from core.store import Store, StoreError, data_dir
from core.studies.jobs import Jobs
from core.studies.kind import Kind
from core.studies.registry import kinds
from core.studies.runner import StudyTools
from simulated.runs import make_run

SWEEP = ("sweep", "--targets", "cpu,threads=1", "cpu,threads=2", "--batches", "1,4,16,64,256", "--budget", "40")
LONGEST_S, LOCKED_S = 10.0, 15.0
"""Real time allowed for a command on a virtual clock, and more if the store is still locked at its end, for a last
attempt to store everything.
"""

ABOUT_REQUESTS = 280


class History:
    """Actions on the history's file."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.lock: sqlite3.Connection | None = None
        with closing(Store()) as store:
            self.path = Path(store.where)

    def locked(self) -> None:
        self.lock = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
        self.lock.execute("BEGIN IMMEDIATE")

    def unlocked(self) -> None:
        if self.lock is not None:
            self.lock.execute("ROLLBACK")
            self.lock.close()
            self.lock = None

    def full(self) -> None:
        size = self.path.stat().st_size
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4096 * 4096, hard))

    def freed(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    def gone(self) -> None:
        shutil.rmtree(data_dir(), ignore_errors=True)

    def truncated(self) -> None:
        with self.path.open("r+b") as file:
            file.truncate(self.random.randrange(self.path.stat().st_size))

    def damaged(self) -> None:
        size = self.path.stat().st_size
        with self.path.open("r+b") as file:
            for _ in range(self.random.choice((1, 4, 40))):
                file.seek(self.random.randrange(size))
                file.write(self.random.randbytes(self.random.choice((1, 16, 512))))


class Disturbed(FaultyMachine):
    """Machine that acts on the store at one request and undoes it at a later one."""

    def __init__(self, machine: Any, actions: dict[int, Any]) -> None:
        super().__init__(machine, Planted(), None)  # type: ignore[arg-type]
        self.actions = actions

    def strikes(self, target: int) -> bool:  # noqa: ARG002
        if (act := self.actions.get(self.requests)) is not None:
            act()
        self.requests += 1
        return False


def _sweep(random_: random.Random, findings: Findings, actions: Any) -> bool:
    """Run a sweep by its command with actions at chosen requests, and check that ``--out`` holds all numbers.

    Returns:
        True if the store was locked to the end.
    """
    store = History(random_)
    with simulated_workers() as machine:
        disturbed = Disturbed(machine, actions(store))
        begin_s = time.monotonic()
        with simulated_workers(disturbed.launch, machine):
            result = run(*SWEEP, "--out", "out.json")
    took_s = time.monotonic() - begin_s
    locked = store.lock is not None
    longest_s = LONGEST_S + (LOCKED_S if locked else 0.0)
    store.freed()
    store.unlocked()
    check_result(result, findings, (0, 1))
    findings.require(took_s <= longest_s, "over time", f"the study was held up for {took_s:.0f} s")
    _check_told(disturbed.told, _out_numbers(), findings, "--out")
    findings.require(not disturbed.open, "orphans", "a worker was not closed")
    return locked


def _out_numbers() -> list[float]:
    out = Path("out.json")
    try:
        return numbers_of(Run.from_json(out.read_bytes())) if out.exists() else []
    except UserError:
        return []


def _check_told(told: Sequence[float | None], kept: list[float], findings: Findings, where: str, cut: int = 1) -> None:
    """Check that everything measured was kept, except the blocks of a round cut short, at most ``cut``."""
    lost = len(set(told) - {None} - set(kept))
    findings.require(lost <= cut, "rounds lost", f"{lost} of {len(told)} blocks are not in {where}")


def _stored_numbers(findings: Findings) -> list[float]:
    with findings.watching(UserError), closing(Store()) as store:
        (summary,) = store.summaries()
        return numbers_of(store.load(summary.id))
    return []


def locked(random_: random.Random, index: int, findings: Findings) -> None:
    """Lock the store by another process for some requests, or from before the start, or to the end."""
    first = 0 if index % 5 == 0 else random_.randrange(ABOUT_REQUESTS)
    last = None if index % 4 == 0 else first + random_.randrange(1, 60)
    findings.about(f"from request {first} to {last or 'the end'}")

    def actions(store: History) -> dict[int, Any]:
        if first == 0:
            store.locked()
        by_request: dict[int, Any] = {first: store.locked} if first else {}
        return by_request | ({last: store.unlocked} if last is not None else {})

    if not _sweep(random_, findings, actions) and first:
        _check_told(_out_numbers(), _stored_numbers(findings), findings, "the store")


def failing(random_: random.Random, index: int, findings: Findings) -> None:
    """Fill the disk, remove the folder, truncate or overwrite the file, at a random request."""
    what = ("full", "gone", "truncated", "damaged")[index % 4]
    at = random_.randrange(ABOUT_REQUESTS - 80)
    findings.about(f"{what} at request {at}")

    def actions(store: History) -> dict[int, Any]:
        undone = {at + random_.randrange(1, 40): store.freed} if what == "full" else {}
        return {at: getattr(store, what)} | undone

    _sweep(random_, findings, actions)
    with findings.watching(UserError), closing(Store()) as store:
        for summary in store.summaries():
            with suppress(UserError):
                store.study(kinds()[summary.kind], summary.id)


class _Refusing:
    """A store that fails at chosen calls with a StoreError, as the real one does."""

    def __init__(self, real: Store, at: int, often: int) -> None:
        self._real, self._at, self._often, self._calls = real, at, often, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)

        def call(*arguments: Any, **named: Any) -> Any:
            number, self._calls = self._calls, self._calls + 1
            if self._at <= number < self._at + self._often:
                raise StoreError("Planted: the store failed.")
            return real(*arguments, **named)

        return call


def in_the_dashboard(random_: random.Random, index: int, findings: Findings) -> None:
    """Run a dashboard job whose store fails at some calls: it ends in order and still shows its data."""
    name = sorted(MAKE)[index % len(MAKE)]
    scenario = MAKE[name]()
    streams = kinds()[name].streams
    at, often = random_.randrange(150) if streams else 0, random_.choice((1, 3, 10**6))
    findings.about(f"{name}: call {at}, {often} times")
    faulty = FaultyMachine(scenario.machine, Planted(), None)  # type: ignore[arg-type]
    task = Kind(**{**vars(kinds()[name]), "run": lambda tools, _: scenario.measure(tools)})
    with closing(Store()) as real:
        jobs = Jobs(_Refusing(real, at, often), faulty.launch, faulty.clock, lambda: None, lambda: None)  # type: ignore[arg-type]
        with findings.watching():
            jobs.start(task, scenario.plan)
            jobs.wait(45.0)
            snapshot = jobs.snapshot()
            assert snapshot is not None
            findings.require(not snapshot.active, "over time", "the job did not end")
            kept = [] if snapshot.record is None else numbers_of(snapshot.record)
            lost = len(set(faulty.told) - {None} - set(kept))
            findings.require(lost < scenario.size, "rounds lost", f"{lost} of {len(faulty.told)} are shown no more")
        jobs.close()
    findings.require(not faulty.open, "orphans", "a worker was not closed")


def resumed(random_: random.Random, index: int, findings: Findings) -> None:
    """Stop a sweep at a request, or lose its workers, and resume it with its data."""
    run = MAKE["sweep"]().plan.model_copy(update={"label": "measured"})
    told: list[float | None] = []
    words = []
    with findings.watching(UserError), closing(Store()) as store:
        for turn in range(1 + index % 3 + 1):
            what = random_.choice(("cancel", "cancel", "lost"))
            planted = Planted(
                what, random_.randrange(ABOUT_REQUESTS), "crashed", random_.choice(("once", "everything"))
            )
            words.append(planted.words)
            findings.about("; ".join(words))
            cancel = threading.Event()
            faulty = FaultyMachine(MAKE["sweep"]().machine, planted, cancel, serial=len(told) + 1)
            tools = StudyTools(faulty.launch, faulty.clock, cancel, None, lambda _: None, store)
            with suppress(UserError):
                kinds()["sweep"].run(tools, run)
            told += faulty.told
            findings.require(not faulty.open, "orphans", "a worker was not closed")
            if not store.summaries():
                return  # stopped before the first round, so nothing can be resumed
            run = store.load(run.id)
            _check_told(told, numbers_of(run), findings, "the store", cut=turn + 1)


def out_on_a_full_disk(random_: random.Random, index: int, findings: Findings) -> None:
    """Check that a file replaced by ``--out`` is whole: the old one, or the new one."""
    old = make_run(seed=index).to_json()
    Path("out.json").write_text(old)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    room = random_.choice((0, 100, 4096, random_.randrange(40_000)))
    findings.about(f"room for {room} bytes")
    with simulated_workers() as machine:

        def launch(*arguments: Any, **named: Any) -> Any:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            return machine.launch(*arguments, **named)

        with simulated_workers(launch, machine):
            result = run(*SWEEP, "--no-store", "--no-trace", "--out", "out.json")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    check_result(result, findings, (0, 1))
    left = Path("out.json").read_text()
    if left != old:
        try:
            Run.from_json(left)
        except UserError:
            findings.add("rounds lost", "the old file is gone, and the new one is cut")


CLASSES = (
    CaseClass("store locked", "simulated", 30, locked, patience_s=90.0),
    CaseClass("store fails", "simulated", 40, failing, patience_s=90.0),
    CaseClass("stopped and resumed", "simulated", 30, resumed),
    CaseClass("store fails in a job", "simulated", 35, in_the_dashboard),
    CaseClass("--out on a full disk", "simulated", 10, out_on_a_full_disk),
)
