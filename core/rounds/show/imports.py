"""Import of runs from untrusted files: strict JSON or CSV in, a validated Run or a one-sentence error out.

Nothing from a file is executed, and its name is never used as a path. JSON is what Breakeven exports. CSV has the
columns target, batch, step_ms and, optionally, round, pass, process, steps, order, at_s and label, in any order.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import combinations
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, cast, get_args

from core.base.evidence import MAX_TARGETS, Block, Label, Warning
from core.base.numbers import byte_size
from core.base.schema import UserError, parse_json
from core.rounds.answer.observations import check_table
from core.rounds.run import Cell, Round, Run
from core.rounds.show.export import is_formula
from core.rounds.study import MAX_RECORD_BYTES, SCHEMA_VERSION
from core.workload.spec import MAX_BATCH, MIN_BATCH

MAX_BYTES = MAX_RECORD_BYTES
MAX_ROWS = 200_000
MAX_COLUMNS = 1_000
MAX_BATCH_SIZES = 1_000
MAX_TARGET_LENGTH = 100
MAX_NUMBER = 10**9
MIN_STEP_MS, MAX_STEP_MS = 1e-6, 1e9  # a nanosecond to eleven days
NEEDED = ("target", "batch", "step_ms")
OPTIONAL = ("round", "pass", "process", "steps", "order", "at_s", "label")
ACCEPTED = "accepted is a CSV file with the columns target, batch, step_ms and, optionally, round"


@dataclass(frozen=True)
class Point:
    """One line of a CSV file: a block, before it is paired into a round."""

    line: int
    target: str
    batch: int
    step_ms: float
    round: int | None = None
    pass_index: int = 0
    process: int = 0
    steps: int = 1
    order: int = 0
    at_s: float = 0.0
    label: str = "recorded"


def read_run(data: bytes, filename: str) -> Run:
    """Read the run in a JSON or CSV file. Raises UserError."""
    try:
        check_size(len(data))
        text = _text(data)
        if filename.lower().endswith(".json") or text.lstrip()[:1] == "{":
            run = _read_json(text)
        else:
            run = _read_csv(text, data, filename)
        for first, second in combinations(range(len(run.target_names)), 2):
            check_table(r for r in run.rounds if r.log_ratio(first, second) is not None)
        return run
    except ValueError as error:
        raise UserError(_one_line(str(error))) from None


def check_size(size: int) -> None:
    """Raise UserError for a file too large to read; call it before reading one."""
    if size > MAX_BYTES:
        raise UserError(
            f"The file is too large ({byte_size(size)}); accepted are JSON and CSV files of up to "
            f"{byte_size(MAX_BYTES)}."
        )


OTHERS = {
    b"\x89PNG": "a PNG picture", b"\xff\xd8\xff": "a JPEG picture", b"%PDF": "a PDF", b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive", b"\x89HDF": "an HDF5 file", b"SQLite format 3\0": "an SQLite database",
}  # fmt: skip
"""File types chosen by mistake, by their first bytes."""


def run_name(filename: str) -> str:
    """Return a display name for an uploaded file: its stem, printable, without folders."""
    stem = PurePosixPath(filename.replace("\\", "/")).name.rsplit(".", 1)[0]
    return _one_line(stem)[:100] or "Imported run"


def _text(data: bytes) -> str:
    if not data.strip():
        raise UserError(f"The file is empty; {ACCEPTED}, or a JSON file exported by Breakeven.")
    if kind := next((kind for begin, kind in OTHERS.items() if data.startswith(begin)), ""):
        raise UserError(f"The file is {kind}, whatever its name; {ACCEPTED}, or a JSON file exported by Breakeven.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"The file is not UTF-8 text (byte {error.start + 1:,}); save it as UTF-8.") from None


def _read_json(text: str) -> Run:
    data = parse_json(text)
    if not isinstance(data, dict) or "schema_version" not in data:
        raise UserError("This JSON is no Breakeven run: it has no schema_version; accepted is an exported run.")
    if data["schema_version"] != SCHEMA_VERSION:
        raise UserError(
            f"This run has schema version {str(data['schema_version'])[:20]}; this Breakeven reads version "
            f"{SCHEMA_VERSION}. Export it again, or update Breakeven."
        )
    run = Run.from_data(data)
    _check_consistent(run)
    return run


def _check_consistent(run: Run) -> None:
    """Check what the schema of a run cannot express. Raises UserError."""
    keys: list[tuple[object, ...]] = [("round", r.index) for r in run.rounds]
    keys += [("block of target", b.target, "in round", r.index) for r in run.rounds for b in r.blocks]
    keys += [("cell of target", c.target, "at batch", c.batch) for c in run.cells]
    keys += [("warning", w.code) for w in run.warnings]
    keys += [("loop of target", cost.target) for cost in run.loops]
    seen: set[tuple[object, ...]] = set()
    for key in keys:
        if key in seen:
            raise UserError(f"The run holds {' '.join(map(str, key))} twice; each must be there once.")
        seen.add(key)
    batches = {r.batch for r in run.rounds} | {c.batch for c in run.cells} | {s.batch for s in run.setups}
    batches |= {cost.batch for cost in run.loops}
    if batches and max(batches) > MAX_BATCH:
        raise UserError(f"The run holds batch {max(batches)}; accepted are {MIN_BATCH} to {MAX_BATCH:,}.")
    if len(batches) > MAX_BATCH_SIZES:
        raise UserError(f"The run holds {len(batches):,} batch sizes; at most {MAX_BATCH_SIZES:,} are accepted.")
    blocks = [block for item in run.rounds for block in item.blocks]
    if not all(MIN_STEP_MS <= block.step_ms <= MAX_STEP_MS for block in blocks):
        raise UserError(f"The run holds a step time outside {MIN_STEP_MS:g} to {MAX_STEP_MS:g} ms.")
    numbers = [n for item in run.rounds for n in (item.index, item.pass_index)]
    numbers += [n for block in blocks for n in (block.process, block.steps)]
    if numbers and max(numbers) > MAX_NUMBER:
        raise UserError(f"A round holds the number {max(numbers)}; at most {MAX_NUMBER:,} is accepted.")
    if max((len(w.code) for w in run.warnings), default=0) > 100:
        raise UserError("A warning's code is longer than 100 characters.")
    names = [_one_line(name) for name in run.target_names]
    if len(set(names)) < len(names) or not all(names):
        raise UserError("A run's targets need different names.")


def _read_csv(text: str, data: bytes, filename: str) -> Run:
    points, ignored = _points(text)
    names = tuple(dict.fromkeys(point.target for point in points))
    if len(names) > MAX_TARGETS:
        raise UserError(f"The file holds {len(names)} targets ({_listed(names)}); at most {MAX_TARGETS} are accepted.")
    labels = tuple(dict.fromkeys(point.label for point in points))
    if len(labels) != 1:
        raise UserError(f"The file mixes the labels {_listed(labels)}; one file holds one kind of number.")
    if len({point.batch for point in points}) > MAX_BATCH_SIZES:
        raise UserError(f"The file holds more than {MAX_BATCH_SIZES:,} batch sizes.")
    rounds, in_file_order = _rounds(points, names)
    warnings = []
    if in_file_order:
        note = "The file has no round column: repeated rows of a target and batch were paired in file order."
        warnings.append(Warning(code="paired_in_file_order", text=note))
    if ignored:
        warnings.append(Warning(code="columns_ignored", text=f"Columns without meaning here: {_listed(ignored)}."))
    measured = sorted({(point.batch, names.index(point.target)) for point in points})
    return Run(
        id=f"csv-{sha256(data).hexdigest()[:12]}",
        name=run_name(filename),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        label=cast(Label, labels[0]),
        status="finished",
        target_names=names,
        cells=tuple(Cell(target=target, batch=batch, outcome="measured") for batch, target in measured),
        rounds=rounds,
        warnings=tuple(warnings),
    )


def _points(text: str) -> tuple[list[Point], tuple[str, ...]]:
    """Return every line as a point, and the names of ignored columns."""
    header = text.split("\n", 1)[0]
    delimiter = next((d for d in (",", ";", "\t") if d in header), ",")
    # no newline translation, so that the csv module counts lines as an editor does
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    points: list[Point] = []
    columns: list[str] = []
    for line, row in _lines(reader):
        if not columns:
            columns = _columns(row)
            continue
        if len(row) != len(columns):
            raise UserError(
                f"Line {line} has {len(row)} values where the header names {len(columns)} columns; "
                'a target that contains a comma stands in quotes, as in "cpu,threads=1".'
            )
        if len(points) == MAX_ROWS:
            raise UserError(f"The file has more than {MAX_ROWS:,} rows; at most that many are accepted.")
        points.append(_point(line, dict(zip(columns, row, strict=True)), delimiter))
    if not points:
        raise UserError(f"The file has a header and no rows; {ACCEPTED}.")
    return points, tuple(name for name in columns if name not in NEEDED + OPTIONAL)


def _lines(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of each line that is not blank."""
    try:
        for row in reader:
            if any(value.strip() for value in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"Line {reader.line_num} is not valid CSV ({error}); {ACCEPTED}.") from None


def _columns(header: list[str]) -> list[str]:
    if len(header) > MAX_COLUMNS:
        raise UserError(f"Line 1 names {len(header):,} columns; at most {MAX_COLUMNS:,} are accepted.")
    columns = [_one_line(name).lower() for name in header]
    if missing := [name for name in NEEDED if name not in columns]:
        raise UserError(f"Line 1 lacks the column {' and '.join(missing)}; {ACCEPTED}.")
    if twice := [name for name in columns if name in NEEDED + OPTIONAL and columns.count(name) > 1]:
        raise UserError(f"Line 1 names the column {twice[0]} twice; {ACCEPTED}.")
    return columns


def _point(line: int, row: dict[str, str], delimiter: str) -> Point:
    name = row["target"]
    target = _one_line(name.removeprefix("'") if is_formula(name) else name)
    if not 1 <= len(target) <= MAX_TARGET_LENGTH:
        raise UserError(f"Line {line}: a target's name has 1 to {MAX_TARGET_LENGTH} characters.")
    if delimiter == ";":  # spreadsheets that separate by semicolons write decimals with a comma
        row = row | {name: row[name].replace(",", ".") for name in ("step_ms", "at_s") if name in row}
    step_ms = _decimal(line, "step_ms", row["step_ms"])
    if not MIN_STEP_MS <= step_ms <= MAX_STEP_MS:
        raise UserError(
            f"Line {line}: step_ms is {step_ms:g}; a step time is a positive number of milliseconds, "
            f"{MIN_STEP_MS:g} to {MAX_STEP_MS:g}."
        )
    label = row.get("label", "").strip().lower() or "recorded"
    if label not in get_args(Label):
        raise UserError(
            f"Line {line}: the label is “{_one_line(label)[:40]}”; accepted are {_listed(get_args(Label))}."
        )
    return Point(
        line=line,
        target=target,
        batch=_whole(line, "batch", row["batch"], MIN_BATCH, MAX_BATCH),
        step_ms=step_ms,
        round=_whole(line, "round", row["round"], 0) if "round" in row else None,
        pass_index=_whole(line, "pass", row["pass"], 0) if row.get("pass") else 0,
        process=_whole(line, "process", row["process"], 0) if row.get("process") else 0,
        steps=_whole(line, "steps", row["steps"], 1) if row.get("steps") else 1,
        order=_whole(line, "order", row["order"], 1, MAX_TARGETS) if row.get("order") else 0,
        at_s=_decimal(line, "at_s", row["at_s"]) if row.get("at_s") else 0.0,
        label="recorded" if label == "measured" else label,  # it was measured, but not by this machine now
    )


def _whole(line: int, column: str, value: str, low: int, high: int = MAX_NUMBER) -> int:
    text = value.strip()
    number = int(text) if re.fullmatch(r"[0-9]{1,12}", text) else -1
    if not low <= number <= high:
        raise UserError(f"Line {line}: {column} is “{text[:40]}”; accepted are whole numbers {low} to {high:,}.")
    return number


def _decimal(line: int, column: str, value: str) -> float:
    text = value.strip()
    plain = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text)
    number = float(text) if plain else float("nan")
    if not isfinite(number):
        raise UserError(f"Line {line}: {column} is “{text[:40]}”; accepted is a finite number such as 0.25.")
    return number


def _rounds(points: list[Point], names: tuple[str, ...]) -> tuple[tuple[Round, ...], bool]:
    """Pair points by batch and round; also return whether missing round numbers forced pairing in file order."""
    pairs: dict[tuple[int, int], list[Point]] = {}
    count: dict[tuple[str, int], int] = {}
    for point in points:
        turn = count.get((point.target, point.batch), 0)
        count[point.target, point.batch] = turn + 1
        pair = pairs.setdefault((point.batch, turn if point.round is None else point.round), [])
        if any(other.target == point.target for other in pair):
            raise UserError(
                f"Line {point.line} repeats target {point.target}, batch {point.batch}, round {point.round}; "
                "each may be there once."
            )
        pair.append(point)
    in_file_order = points[0].round is None and max(count.values()) > 1
    turns = [turn for _, turn in pairs]
    unique = points[0].round is not None and len(set(turns)) == len(turns)
    rounds = [_round(turn if unique else n, pair, names) for n, ((_, turn), pair) in enumerate(pairs.items())]
    return tuple(sorted(rounds, key=lambda r: r.index)), in_file_order


def _round(index: int, pair: list[Point], names: tuple[str, ...]) -> Round:
    blocks = tuple(
        Block(
            target=names.index(point.target),
            process=point.process,
            steps=point.steps,
            step_ms=point.step_ms,
            at_s=point.at_s,
        )
        for point in sorted(pair, key=lambda p: p.order)
    )
    return Round(index=index, pass_index=pair[0].pass_index, batch=pair[0].batch, blocks=blocks)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(_one_line(name)[:40] for name in names[:4])
    return shown if len(names) <= 4 else f"{shown}, …"


def _one_line(text: str) -> str:
    """Return the printable characters with runs of spaces and line ends as one space, at most 500 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:500]
