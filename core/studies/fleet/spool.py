"""Spool of a fleet's incoming runs: lines of JSON in a temporary folder, so that a thousand of them need no memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic_core import from_json

from core.evidence import Status
from core.studies.fleet.messages import decode_item, encode
from core.studies.runner import NullRecorder, Recorder
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.record import Run, RunRecord


class Spool:
    """Recorder in front of another one; it keeps runs until it is closed, and :meth:`run` reassembles one."""

    def __init__(self, recorder: Recorder) -> None:
        self._next = recorder
        self._folder = tempfile.TemporaryDirectory(prefix="breakeven-fleet-")
        self._ended: dict[str, tuple[Status, float]] = {}

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def begin(self, run: Run) -> None:
        self._write(run.id, (run,), "wb")
        self._next.begin(run)

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        self._write(run_id, records, "ab")
        self._next.record(run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self._ended[run_id] = status, elapsed_s
        self._next.finish(run_id, status, elapsed_s)

    def delete(self, run_id: str) -> None:
        self._path(run_id).unlink(missing_ok=True)
        self._next.delete(run_id)

    def run(self, run_id: str) -> Run:
        """Return the whole run. Raises OSError for one that was never begun."""
        with self._path(run_id).open("rb") as lines:
            begun, *records = (decode_item(*from_json(line)) for line in lines)
        assert isinstance(begun, Run)
        status, elapsed_s = self._ended.get(run_id, ("interrupted", 0.0))
        ledger = Ledger(begun, NullRecorder())
        ledger.add(*records)  # type: ignore[arg-type]
        return ledger.finish(status, elapsed_s)

    def _write(self, run_id: str, items: Iterable[Run | RunRecord], mode: str) -> None:
        with self._path(run_id).open(mode) as file:
            file.writelines(encode(item) + b"\n" for item in items)

    def _path(self, run_id: str) -> Path:
        return Path(self._folder.name) / f"{run_id}.jsonl"
