"""Conversion of a self-check to text and to a file, and reading it back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.base.files import read_limited
from core.base.numbers import counted, number, table
from core.base.schema import UserError, parse_json
from core.base.text import in_lines
from core.hardware.host import Cost
from core.hardware.host_study import host_lines
from core.studies.selfcheck.checks import WORDS, Check, run_checks
from core.studies.selfcheck.record import HOLDS, LACKS, SelfCheck

MAX_FILE_BYTES = 2_000_000
ENDED = {"cancelled": " It was cancelled.", "interrupted": " It was interrupted."}


def summary(record: SelfCheck, checks: tuple[Check, ...]) -> str:
    """Return the numbers of checks that hold, fail and cannot be seen, in one sentence."""
    count = {status: sum(check.status == status for check in checks) for status in WORDS}
    parts = (f"{count['holds']} hold", counted(count["fails"], "fails", "fail"), f"{count['unseen']} {WORDS['unseen']}")
    return f"Self-check of {record.target}: {parts[0]}, {parts[1]}, {parts[2]}.{ENDED.get(record.status, '')}"


def self_check_text(record: SelfCheck, checks: tuple[Check, ...]) -> str:
    """Return a table of the checks, reasons for those that do not hold, the host's costs, and the file's contents."""
    rows = [(check.title, WORDS[check.status], check.figure) for check in checks]
    lines = [summary(record, checks), "", *table(("check", "result", "figure"), rows), ""]
    lines += reason_lines(checks)
    lines += [
        "",
        *record.notes,
        *floor_lines(record),
        f"All figures are measured, {record.created_at}, {record.elapsed_s:.0f} s.",
        "",
    ]
    return in_lines([*lines, *held_lines()])


def reason_lines(checks: tuple[Check, ...]) -> list[str]:
    """Return why checks fail, then why others cannot be seen; each reason once."""
    titles: dict[str, list[str]] = {}
    for status in ("fails", "unseen"):
        for check in checks:
            if check.status == status:
                titles.setdefault(check.sentence, []).append(check.title)
    return [f"{first}{_others(len(rest))}: {sentence}" for sentence, (first, *rest) in titles.items()]


def _others(count: int) -> str:
    return f", and {counted(count, 'other check')}" if count else ""


def floor_lines(record: SelfCheck) -> list[str]:
    """Return the host's cost of a training step and of an operation, per execution mode, with 95 % intervals."""
    if record.host is None:
        return []
    return [
        f"The host’s own cost, {line.execution} (measured): {_cost(line.step)} per step, "
        f"{_cost(line.op)} per operation."
        for line in host_lines(record.host)
        if line.mode == "train"
    ]


def _cost(cost: Cost) -> str:
    known = cost.low_us is not None and cost.high_us is not None
    interval = f"{number(cost.low_us or 0)} to {number(cost.high_us or 0)}" if known else "too few rounds"
    return f"{number(cost.us)} µs ({interval})"


def held_lines() -> list[str]:
    """Return the list of the file's contents, for its owner to read before sending it."""
    return ["The file of --out or --json holds:", *(f"  {item}" for item in HOLDS), LACKS]


def self_check_data(record: SelfCheck, checks: tuple[Check, ...]) -> dict[str, Any]:
    """Return the file's data: results, list of contents, and the record they are derived from."""
    return {
        "verdict": summary(record, checks),
        "holds": [*HOLDS, LACKS],
        "checks": [asdict(check) for check in checks],
        "record": record.model_dump(mode="json"),
    }


def read_self_check(path: Path) -> tuple[SelfCheck, tuple[Check, ...]]:
    """Read a self-check from a file and derive its results anew. Raises UserError."""
    data = parse_json(read_limited(path, MAX_FILE_BYTES, "a self-check"))
    record = data.get("record", data) if isinstance(data, dict) else data
    if not isinstance(record, dict):
        raise UserError("This is no Breakeven self-check.")
    read = SelfCheck.from_data(record)
    return read, run_checks(read)
