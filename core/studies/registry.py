"""Every kind of study, found by looking through this package, and the finished examples that are shipped."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import core.studies
from core.schema import UserError, parse_json
from core.studies.kind import Kind

DATA = Path(__file__).parents[1] / "data"


@cache
def kinds() -> dict[str, Kind[Any, Any, Any]]:
    """Kinds by name: each folder beside this file that has a module ``kind`` with a ``KIND`` in it."""
    found: dict[str, Kind[Any, Any, Any]] = {}
    for info in pkgutil.iter_modules(core.studies.__path__):
        module = f"{core.studies.__name__}.{info.name}.kind"
        if info.ispkg and importlib.util.find_spec(module) is not None:
            kind = importlib.import_module(module).KIND
            found[kind.name] = kind
    return found


def kind_of(name: str) -> Kind[Any, Any, Any]:
    """Raises UserError for a name that no kind has."""
    if name not in kinds():
        raise UserError(f"There is no study of kind “{name[:40]}”; there are {', '.join(sorted(kinds()))}.")
    return kinds()[name]


def example_id(kind: Kind[Any, Any, Any]) -> str:
    """What the shipped example of a kind is called in addresses."""
    return f"example-{kind.name}"


@cache
def load_example(name: str) -> Any:
    """The shipped record of a kind, real, recorded by this tool. Raises OSError or UserError; None: it ships none."""
    kind = kind_of(name)
    return None if kind.example is None else kind.record.from_json((DATA / kind.example).read_bytes())


def read_record(kind: Kind[Any, Any, Any], text: str | bytes) -> Any:
    """A record from its JSON, or from an export that holds it. Raises UserError."""
    try:
        data = parse_json(text)
    except UserError:
        return kind.record.from_json(text)  # says of what it is no record
    return kind.record.from_data(_record_in(data))


def read_any(text: str | bytes) -> tuple[Kind[Any, Any, Any], Any]:
    """The record of whatever kind a text holds, and the kind. Raises UserError where it is none."""
    with suppress(UserError):
        data = _record_in(parse_json(text))
        names = data.keys() if isinstance(data, dict) else frozenset()
        for kind in kinds().values():
            known = {field.alias or name for name, field in kind.record.model_fields.items()}
            if names and names <= known:  # a million rounds are not read once for each kind
                with suppress(UserError):
                    return kind, kind.record.from_data(data)
    raise UserError("This is no run, and no study of any kind, that this version of Breakeven has written.")


def _record_in(data: Any) -> Any:
    """The record that an export holds, or what was given."""
    record = data.get("record") if isinstance(data, dict) else None
    return record if isinstance(record, dict) else data
