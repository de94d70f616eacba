"""Compile studies that ship with the product, so that the first screen needs no compiler: one file per workload."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from core.base.frameworks import Precision
from core.base.schema import UserError
from core.hardware.catalogue import UnknownGpu, catalogue, find_gpu
from core.studies.compiled.answer import CardStep, card_facts
from core.studies.compiled.record import PRECISIONS, CompileStudy
from core.workload.execution import resolved
from core.workload.spec import Target, Workload

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


def compiled_steps(
    workload: Workload, target: Target, gpu: str, others: Iterable[CompileStudy] = ()
) -> tuple[CardStep, ...]:
    """Return the compiled facts of a target's steps on a card, which may have the driver's name for it.

    Returns none if XLA does not compile them, the card is unknown, or nothing was compiled for it.
    """
    target = resolved(workload, target)
    if not target.is_gpu or target.execution != "xla" or target.precision not in PRECISIONS:
        return ()
    try:
        card = find_gpu(gpu, catalogue()).name
    except UnknownGpu:
        return ()
    study = study_of(workload, target.precision, (card,), others)
    if study is None:
        return ()
    return card_facts(study, [spec.name for spec in study.plan.cards].index(card)).steps
