"""Registry of all kinds of study, found by scanning this package, and their shipped examples."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import core.studies
from core.base.schema import UserError, parse_json
from core.studies.kind import Kind

DATA = Path(__file__).parents[1] / "data"
SWEEPS = {"inference": "example_inference.json", "gpu": "example_gpu.json", "gpu-training": "example_gpu_training.json"}
"""Further examples of sweeps: of inference, for what training cannot answer, and of a real GPU. The id of one begins
with ``example-`` and its key here."""


@cache
def kinds() -> dict[str, Kind[Any, Any, Any]]:
    """Return kinds by name: one per folder beside this file that has a module ``kind`` with a ``KIND``."""
    by_name: dict[str, Kind[Any, Any, Any]] = {}
    for info in pkgutil.iter_modules(core.studies.__path__):
        module = f"{core.studies.__name__}.{info.name}.kind"
        if info.ispkg and importlib.util.find_spec(module) is not None:
            kind = importlib.import_module(module).KIND
            by_name[kind.name] = kind
    return by_name


def kind_of(name: str) -> Kind[Any, Any, Any]:
    """Return the kind of that name. Raises UserError for an unknown name."""
    if name not in kinds():
        raise UserError(f"There is no study of kind “{name[:40]}”; there are {', '.join(sorted(kinds()))}.")
    return kinds()[name]


def example_id(kind: Kind[Any, Any, Any]) -> str:
    """Return the id of a kind's shipped example in addresses."""
    return f"example-{kind.name}"


@cache
def load_example(name: str) -> Any:
    """Return the shipped record of a kind, real and recorded by this tool, or None. Raises OSError or UserError."""
    kind = kind_of(name)
    return None if kind.example is None else kind.record.from_json((DATA / kind.example).read_bytes())


@cache
def sweep_example(which: str) -> Any:
    """Return a further shipped sweep, by its key in :data:`SWEEPS`. Raises OSError or UserError."""
    return kind_of("sweep").record.from_json((DATA / SWEEPS[which]).read_bytes())


def read_record(kind: Kind[Any, Any, Any], text: str | bytes) -> Any:
    """Read a record from its JSON, or from an export that holds it. Raises UserError."""
    try:
        data = parse_json(text)
    except UserError:
        return kind.record.from_json(text)  # its error names the expected record
    return kind.record.from_data(_record_in(data))


def read_any(text: str | bytes) -> tuple[Kind[Any, Any, Any], Any]:
    """Read a record of any kind, and return the kind with it. Raises UserError if it is none."""
    with suppress(UserError):
        data = _record_in(parse_json(text))
        names = data.keys() if isinstance(data, dict) else frozenset()
        for kind in kinds().values():
            known = {field.alias or name for name, field in kind.record.model_fields.items()}
            if names and names <= known:  # avoids reading a million rounds once per kind
                with suppress(UserError):
                    return kind, kind.record.from_data(data)
    raise UserError("This is no run, and no study of any kind, that this version of Breakeven has written.")


def _record_in(data: Any) -> Any:
    """Return the record inside an export, or the data itself."""
    record = data.get("record") if isinstance(data, dict) else None
    return record if isinstance(record, dict) else data
