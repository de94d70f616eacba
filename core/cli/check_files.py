"""Files that ``check`` writes beside its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.cli.files import BadInput, Failure, check_writable, refusing, write_out
from core.files import read_limited, reason
from core.schema import parse_json
from core.studies.check.answer import CheckAnswer
from core.studies.check.asv import LIST, asv_files
from core.studies.check.export import bencher_data
from core.studies.check.record import CheckRecord
from core.text import json_text, shown

MAX_LIST_BYTES = 20_000_000


def check_out(out: Path | None, bencher: Path | None, asv: Path | None) -> None:
    """Raise BadInput if a file could not be written, before any work is done for it."""
    for path in (out, bencher):
        if path is not None:
            check_writable(path)
    if asv is not None and not _is_folder(asv):
        raise BadInput(f"--asv {shown(str(asv))} is no folder; name the folder of results that asv.conf.json names.")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # the name may be too long or invalid
        return False


def write_files(
    record: CheckRecord,
    answer: CheckAnswer,
    data: dict[str, Any],
    out: Path | None,
    bencher: Path | None,
    asv: Path | None,
) -> tuple[Failure | None, ...]:
    """Write the requested files; return the failures."""
    failures = [write_out(out, json_text(data)), write_out(bencher, json_text(bencher_data(record, answer)))]
    if asv is not None:
        failures.append(_write_asv(record, asv))
    return tuple(failures)


def _write_asv(record: CheckRecord, folder: Path) -> Failure | None:
    with refusing():
        files = asv_files(record)
    listed = folder / LIST
    if listed.exists():  # keep the project's own benchmarks
        with refusing(f"{shown(str(listed))}: "):
            known = parse_json(read_limited(listed, MAX_LIST_BYTES, "a list of asv's benchmarks"))
        files[LIST] = {**known, **files[LIST]} if isinstance(known, dict) else files[LIST]
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            return Failure(f"{path.parent} could not be made: {reason(error)}.")
        if (failure := write_out(path, json_text(content))) is not None:
            return failure
    return None
