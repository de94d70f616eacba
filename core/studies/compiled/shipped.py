"""Compile studies that ship with the product, so that the first screen needs no compiler: one file per workload."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from core.base.frameworks import Precision
from core.base.schema import UserError
from core.studies.compiled.record import CompileStudy
from core.workload.spec import Workload

FOLDER = Path(__file__).parents[2] / "data" / "compiled"
"""Made by ``python -m benchmarks.record_compiled``."""


def path_of(workload: Workload, precision: Precision) -> Path:
    """Return the file of a workload's shipped study, if there is one."""
    name = f"{workload.network.name}_{workload.mode}_{precision}"
    return FOLDER / f"{''.join(c if c.isalnum() or c in '-_' else '-' for c in name)}.json.gz"


@cache
def shipped(path: Path) -> CompileStudy | None:
    """Return the study in a file; None if it cannot be read."""
    try:
        return CompileStudy.from_json(gzip.decompress(path.read_bytes()))
    except (OSError, UserError):
        return None


def study_of(
    workload: Workload, precision: Precision, cards: Iterable[str], others: Iterable[CompileStudy] = ()
) -> CompileStudy | None:
    """Return the study of these steps with most of the cards, one of ``others`` before the shipped one.

    Returns None if no study has any of them.
    """
    wanted, best, most = set(cards), None, 0
    for study in (*others, shipped(path_of(workload, precision))):
        if study is not None and (study.plan.workload, study.plan.precision) == (workload, precision):
            known = {study.plan.cards[step.card].name for step in study.steps if step.program is not None}
            if len(wanted & known) > most:
                best, most = study, len(wanted & known)
    return best
