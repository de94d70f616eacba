"""A run condensed to the few numbers needed for comparing it with runs of other machines.

The store keeps this beside each run of a fleet, so that a page that compares a thousand machines reads no rounds. It is
derived data: :data:`CONDENSED` is raised when its contents change, and copies of an earlier version are rebuilt.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from core.base.evidence import MAX_TARGETS, Label, Status, TargetIndex
from core.base.schema import Frozen
from core.figures.style import machine_parts
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Against
from core.rounds.answer.baseline import ahead_words
from core.rounds.answer.energy import Source, energy_of
from core.rounds.answer.fastest import failed_from
from core.rounds.answer.observations import Observations, observe_alone
from core.rounds.run import Run

CONDENSED = 2
Numbers = tuple[float, ...]


class TargetCurve(Frozen):
    """Step times of one target by measured batch, rising: the mean of ``log`` (step time in ms) over replicates, its
    standard error, and its degrees of freedom (0, with the error None: unknown).

    ``units`` is the number of starts of the workers, ``unstable`` tells that their replicates disagree too much;
    ``failed_from`` is the smallest batch above all others at which the target failed.
    """

    batches: tuple[int, ...] = ()
    log_ms: Numbers = ()
    error: tuple[float | None, ...] = ()
    df: Numbers = ()
    rounds: int = 0
    units: int = 0
    unstable: bool = False
    failed_from: int | None = None


class OwnCrossover(Frozen):
    """Another target against the run's baseline: where it is faster, in words, and each crossover with its interval."""

    target: TargetIndex
    words: str
    crossovers: tuple[tuple[float, float | None, float | None], ...] = ()


class Joules(Frozen):
    """Energy per sample (J) of a target at a batch, with its 95 % interval (None: too few windows)."""

    target: TargetIndex
    batch: int
    value: float
    low: float | None
    high: float | None
    source: Source


class CondensedRun(Frozen):
    """Condensed run: one entry of ``curves`` per target; ``hardware`` names processor and GPUs."""

    version: int = CONDENSED
    run_id: str
    target_names: tuple[str, ...]
    label: Label
    status: Status
    hardware: str = ""
    rounds: int = 0
    elapsed_s: float = 0.0
    curves: Annotated[tuple[TargetCurve, ...], Field(max_length=MAX_TARGETS)] = ()
    own: tuple[OwnCrossover, ...] = ()
    energy: tuple[Joules, ...] = ()
    notes: int = 0


def condense(run: Run) -> CondensedRun:
    """Condense a run.

    Raises UserError if it has more rounds than any sweep makes.
    """
    targets, failed = range(len(run.target_names)), failed_from(run)
    answer = analyse(run) if run.rounds else None
    return CondensedRun(
        run_id=run.id,
        target_names=run.target_names,
        label=run.label,
        status=run.status,
        hardware=", ".join(machine_parts(run.environment)) if run.environment is not None else "",
        rounds=len(run.rounds),
        elapsed_s=run.elapsed_s,
        curves=tuple(_curve(run, target).model_copy(update={"failed_from": failed.get(target)}) for target in targets),
        own=() if answer is None else tuple(map(_own, answer.against)),
        energy=tuple(
            Joules(target=cell.target, batch=cell.batch, value=cell.gross.value, low=cell.gross.low,
                   high=cell.gross.high, source=cell.source)
            for cell in energy_of(run).cells
        ),
        notes=0 if answer is None else len(answer.verdict.warnings),
    )  # fmt: skip


def _curve(run: Run, target: int) -> TargetCurve:
    rounds = sum(item.step_ms(target) is not None for item in run.rounds)
    return target_curve(observe_alone(run, target)).model_copy(update={"rounds": rounds})


def target_curve(seen: Observations) -> TargetCurve:
    """Return the curve of a target from the log step times of its replicates."""
    if not len(seen.batches):
        return TargetCurve()
    center, error, df = seen.estimate
    known = np.isfinite(error) & (df > 0)
    return TargetCurve(
        batches=tuple(round(batch) for batch in seen.batches.tolist()),
        log_ms=tuple(center.tolist()),
        error=tuple(value if sure else None for value, sure in zip(error.tolist(), known.tolist(), strict=True)),
        df=tuple(np.where(known, df, 0.0).tolist()),
        units=len(seen.values),
        unstable=seen.unstable,
    )


def _own(pair: Against) -> OwnCrossover:
    changes = [(c.batch, c.low, c.high) for c in pair.verdict.crossovers if math.isfinite(c.batch)]
    return OwnCrossover(target=pair.target, words=ahead_words(pair), crossovers=tuple(changes))
