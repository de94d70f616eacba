"""One published step of a whole network, and the rows left out, each by a rule stated before its error was seen."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.hardware.host import Conditions, HostKind
from core.workload.spec import Target, Workload

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "published"

Kind = Literal["mlp", "cnn", "transformer", "recurrent"]


@dataclass(frozen=True)
class NetworkRow:
    """One published step of a whole network.

    ``gpu`` is the catalogue's name. ``source`` is one public repository, ``group`` its rows of one machine.
    ``resolution_ms``: half the last printed digit, 0 if it is finer than matters. ``upper``: the time includes
    something else (start, validation), so that it bounds the step from above.
    """

    source: str
    group: str
    kind: Kind
    gpu: str
    workload: Workload
    target: Target
    conditions: Conditions
    host: HostKind
    batch: int
    step_ms: float
    resolution_ms: float = 0.0
    upper: bool = False


@dataclass(frozen=True)
class LeftOut:
    """Rows of a file that are not used, and the rule that excludes them."""

    source: str
    rule: str
    rows: int


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the lines of a published table, compressed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


Rule = str
Outcome = tuple[str, NetworkRow | Rule]
"""A row's source, with the row or the rule that leaves it out."""


def used(outcomes: Iterable[Outcome]) -> tuple[NetworkRow, ...]:
    """Return the rows that no rule leaves out."""
    return tuple(row for _, row in outcomes if isinstance(row, NetworkRow))


def left_out(outcomes: Iterable[Outcome]) -> tuple[LeftOut, ...]:
    """Count the rows that are left out, by source and rule."""
    counts = Counter((source, rule) for source, rule in outcomes if isinstance(rule, Rule))
    return tuple(LeftOut(source, rule, rows) for (source, rule), rows in counts.items())
