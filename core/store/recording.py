"""Storing a sweep as it is measured, and finding those that nobody measures any more."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil
from sqlalchemy import RowMapping, select, update

from core.base.evidence import Status
from core.machine.lock import this_host
from core.rounds.run import Run, RunRecord
from core.store.records import Records
from core.store.rows import head_of, insert_run, now, put_records, read_row
from core.store.tables import RUNS, NotResumed, RunNotFound, StoreError

# A process on another machine cannot be checked; a sweep that recorded nothing for this long is over.
SILENT_ELSEWHERE = timedelta(hours=1)


def this_process() -> str:
    return f"{this_host()} {os.getpid()} {psutil.Process().create_time():.2f}"


def is_alive(owner: str, seen_at: str) -> bool:
    """Return True if ``owner`` still runs or, on another machine, recorded anything recently.

    False if a damaged row tells neither.
    """
    try:
        host, _, process = owner.partition(" ")
        if host and host != this_host():
            return datetime.now(UTC) - datetime.fromisoformat(seen_at) < SILENT_ELSEWHERE
        pid, _, started = process.partition(" ")
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1.0
    except (ValueError, TypeError, AttributeError, OverflowError, psutil.Error):
        return False


def is_measured(row: RowMapping) -> bool:
    return row["status"] == "running" and is_alive(row["owner"], row["seen_at"])


class Recording(Records):
    """Methods that a running sweep calls (:class:`core.studies.runner.Recorder`), except ``delete``."""

    def begin(self, run: Run) -> None:
        """Store a new run, or resume a stopped one (same id), with status ``running`` and the plan to continue.

        A stopped run must have been measured here, and no other living process may be measuring it. Raises NotResumed.
        """
        with self._database.write() as db:
            row = read_row(db, run.id)
            if row is None:
                insert_run(db, run)
            elif row["label"] != "measured":
                raise NotResumed(f"Run {run.id} was measured elsewhere and cannot be resumed on this machine.")
            elif is_measured(row) and row["owner"] != this_process():
                raise NotResumed(f"Run {run.id} is being measured by another process; wait for it or cancel it there.")
            started = {"status": "running", "owner": this_process(), "seen_at": now(), "deleted_at": None}
            if row is not None:
                started["head"] = head_of(run)
            db.execute(update(RUNS).where(RUNS.c.id == run.id).values(started))

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        """Commit records at once; a Cell, TracedCell, LoopCost or Warning replaces the one with the same key."""
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} to add rounds to.")
            put_records(db, run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        """Mark the run as ended, and compute its description for lists."""
        self._change(run_id, status=status, elapsed_s=elapsed_s, owner="", seen_at=now(), described=0)
        with suppress(StoreError):  # :meth:`describe` tries again
            self._describe(run_id)

    def mark_interrupted(self, ended: str = "") -> int:
        """Mark runs that nobody measures any more as ``interrupted``; return the number.

        Those are runs whose process is gone, and the run ``ended``, if this process stopped measuring it but could not
        store that.
        """
        if self.read_only:
            return 0
        running = RUNS.c.status == "running"
        with self._database.read() as db:
            rows = db.execute(select(RUNS.c.id, RUNS.c.owner, RUNS.c.seen_at).where(running)).all()
        here = ended, this_process()
        gone = [
            (run_id, owner) for run_id, owner, seen_at in rows
            if str(run_id).isprintable() and ((run_id, owner) == here or not is_alive(owner, seen_at))
        ]  # fmt: skip
        if not gone:
            return 0
        with self._database.write() as db:
            for run_id, owner in gone:
                same = (RUNS.c.id == run_id) & running
                if db.execute(select(RUNS.c.owner).where(same).with_for_update()).scalar() == owner:  # else resumed
                    db.execute(update(RUNS).where(same).values(status="interrupted", owner=""))
        return len(gone)
