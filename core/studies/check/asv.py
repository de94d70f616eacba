"""Export of a check for airspeed velocity (asv): files by machine and commit, which ``asv compare`` reads.

Values are seconds: per batch the median over worker processes, whose own medians are the samples.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import datetime
from statistics import median
from typing import Any

from core.schema import UserError
from core.studies.check.export import step_name
from core.studies.check.plan import Side
from core.studies.check.record import CheckRecord

RESULTS, BENCHMARKS, MACHINE = 2, 2, 1
"""Versions of asv's files, as of asv 0.6."""
LIST = "benchmarks.json"


def asv_files(record: CheckRecord) -> dict[str, dict[str, Any]]:
    """Return files by path within asv's results folder: the machine, one file per commit, the list of benchmarks.

    Raises UserError if a side is no commit.
    """
    plan = record.plan
    if len(plan.sides) < 2 or not all(side.commit for side in plan.sides):
        raise UserError(
            "asv keeps results by commit: name a commit with --against, and have nothing changed in the current folder."
        )
    here = record.run.environment
    machine = f"breakeven-{here.hostname_hash if here else 'unknown'}"
    environment = f"breakeven-py{here.python if here else ''}"
    name = _name(record)
    listed = {
        "name": name, "type": "time", "unit": "seconds", "params": [[str(batch) for batch in plan.batches]],
        "param_names": ["batch"], "version": hashlib.sha256(name.encode()).hexdigest(), "code": name, "timeout": 0,
        "number": 0, "repeat": 0,
    }  # fmt: skip
    files: dict[str, dict[str, Any]] = {
        f"{machine}/machine.json": {
            "machine": machine, "os": here.os if here else "", "cpu": here.cpu if here else "", "arch": "", "ram": "",
            "num_cpu": str(here.logical_cores or "") if here else "", "version": MACHINE,
        },
        LIST: {name: listed, "version": BENCHMARKS},
    }  # fmt: skip
    for index, side in enumerate(plan.sides):
        path = f"{machine}/{(side.commit or '')[:8]}-{environment}.json"
        files[path] = _results(record, index, side, listed) | {
            "env_name": environment, "params": {"machine": machine}, "python": here.python if here else "",
        }  # fmt: skip
    return files


def _name(record: CheckRecord) -> str:
    """Return a benchmark name without spaces, as asv expects."""
    return f"breakeven.{step_name(record).replace(' ', '.')}"


def _results(record: CheckRecord, index: int, side: Side, listed: dict[str, Any]) -> dict[str, Any]:
    """Return the results of one side."""
    at_ms = int(1000 * datetime.fromisoformat(record.run.created_at).timestamp())
    samples = [_samples_s(record, index, batch) for batch in record.plan.batches]
    values = [median(of_batch) if of_batch else None for of_batch in samples]
    row = [values, listed["params"], listed["version"], at_ms, None, samples]
    return {
        "commit_hash": side.commit, "date": side.committed_ms, "requirements": {}, "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "samples"],
        "results": {listed["name"]: row}, "durations": {}, "version": RESULTS,
    }  # fmt: skip


def _samples_s(record: CheckRecord, index: int, batch: int) -> list[float]:
    """Return the median step time of each worker process, in seconds."""
    steps: dict[int, list[float]] = defaultdict(list)
    for item in record.run.rounds:
        if item.batch == batch and (step_ms := item.step_ms(index)) is not None:
            steps[item.process].append(step_ms / 1000)
    return [median(values) for _, values in sorted(steps.items())]
