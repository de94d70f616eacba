"""One published step of a whole network, and what was left out, each by a rule that was stated before its error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.hardware.conditions import Conditions
from core.hardware.host_kinds import HostKind
from core.spec import Target, Workload

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "published"

Kind = Literal["mlp", "cnn", "transformer", "recurrent"]


@dataclass(frozen=True)
class NetworkRow:
    """``gpu`` as the catalogue names it. ``source`` is one public repository, ``group`` its rows of one machine.

    ``resolution_ms``: half the last digit of what was printed, 0 where it is finer than matters. ``upper``: the time
    also holds something else (start, validation), so that it bounds the step from above.
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
    """Rows of a file that are not used, and the rule by which."""

    source: str
    rule: str
    rows: int
