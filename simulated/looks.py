"""Sweeps of simulated machines, as users see them: at every report, cancelled half-way, at the end, extended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.answer.fastest import fastest
from core.rounds.answer.more_time import extended
from core.rounds.run import Run
from core.studies.progress import Progress
from core.studies.sweep import supervisor
from core.workload.spec import Target
from simulated.noise import NoiseModel
from simulated.scatter import STEP
from simulated.simulation import Curve, Machine, random_ladder
from simulated.sweeps import plan, sweep
from simulated.tools import tools_for
from simulated.truths import true_changes, wrong

ONE_CORE = (
    Target(threads=1), Target(threads=1, execution="xla"), Target(threads=1, execution="eager"),
    Target(threads=1, framework="jax"), Target(threads=1, framework="torch"),
    Target(threads=1, steps_per_execution=8),
)  # fmt: skip
"""Targets with equal places, so that disturbances of the machine leave the truth unchanged."""
LOST = {2: 0, 3: 0, 6: 3}
"""Number of targets that are nowhere the fastest, by number of targets."""


def claims_of(answer: Answer) -> frozenset[str]:
    """Return codes of an answer's claims except equivalence, which is true of equal targets."""
    stated = getattr(answer, "claims", None)
    return frozenset(_claims(answer) if stated is None else stated) - {"equivalent"}


def _claims(answer: Answer) -> set[str]:
    """Return the claims of an answer that does not list them: all statements of its sentence on who is faster."""
    verdict, claims = answer.verdict, set[str]()
    if answer.fastest is not None and verdict.has_interval:
        claims |= {"band" for band in answer.fastest.bands if len(band.targets) == 1}
    if verdict.has_interval and verdict.kind in ("crossover", "ahead"):
        claims.add(verdict.kind)
    if verdict.lead is not None and verdict.lead.low is not None:
        claims.add("lead")
    if verdict.reason.startswith(("straddles_", "weak_sign_change")):
        claims.add(verdict.reason)
    return claims


@dataclass
class Looked:
    """Claims at any look at one sweep; ``halfway`` are those of its run cancelled after half its budget."""

    live: set[str] = field(default_factory=set)
    halfway: frozenset[str] = frozenset()
    end: frozenset[str] = frozenset()
    prolonged: frozenset[str] | None = None
    looks: int = 0
    run: Run | None = None

    @property
    def claims(self) -> frozenset[str]:
        return self.halfway.union(self.end, self.prolonged or (), self.live)


def simulated(curves: tuple[Curve, ...], noise: NoiseModel, seed: int) -> Machine:
    """Return a machine whose starts take as long as forks or fresh processes."""
    startup_s, prepare_s = (6.0, 1.0) if noise.start == "fresh" else (0.1, 0.3)
    return Machine(curves, noise, seed, startup_s=startup_s, prepare_s=prepare_s)


def measured(machine: Machine, budget_s: float, **options: Any) -> Run:
    """Measure a sweep of targets with equal places, one per curve."""
    count = len(machine.curves)
    changes: dict[str, Any] = {"targets": ONE_CORE[:count], "budget_s": budget_s, "trace": False}
    return sweep(machine, plan(count=count, **changes), interference=machine.interference(), **options)


def looked_at(machine: Machine, budget_s: float, every_s: float = 0.25, more_s: float = 0.0) -> Looked:
    """Measure a sweep and collect its claims at regular looks; with ``more_s``, extend it and look again."""
    seen = Looked()
    half_s = machine.clock.now_s() + budget_s / 2

    def look(progress: Progress) -> None:
        seen.looks += 1
        if progress.answer is None:
            return
        seen.live |= claims_of(progress.answer)
        if machine.clock.now_s() <= half_s:
            seen.run = progress.record

    with patch.object(supervisor, "TELL_EVERY_S", every_s):
        whole = measured(machine, budget_s, report=look)
        if seen.run is not None:  # the last one before half of the budget was over
            seen.halfway = claims_of(analyse(seen.run.model_copy(update={"status": "cancelled"})))
        seen.end = claims_of(analyse(whole))
        if more_s:
            tools = tools_for(machine, report=look, interference=machine.interference())
            longer = supervisor.run_sweep(tools, extended(whole, more_s))
            seen.prolonged = claims_of(analyse(longer))
    seen.run = whole
    return seen


def equal_targets(noise: NoiseModel, seed: int, budget_s: float, count: int = 2, **options: Any) -> Looked:
    return looked_at(simulated((STEP,) * count, noise, seed), budget_s, **options)


@dataclass(frozen=True)
class Judged:
    """One sweep with known truth.

    It holds the number of changes, whether each claimed interval contains one, their widths (high over low), and
    whether the whole answer is right.
    """

    changes: int
    covered: tuple[bool, ...]
    ratios: tuple[float, ...]
    right: bool


def near_curves(rng: np.random.Generator) -> tuple[Curve, Curve]:
    """Return two implementations of one step on a CPU that cross from batch 8 to 200 and never differ much."""
    part, meet = rng.uniform(0.5, 0.9), 2.0 ** rng.uniform(3.0, 7.6)
    floor_ms = STEP.floor_ms + (1 - part) * STEP.slope_ms * meet
    return STEP, Curve(floor_ms, part * STEP.slope_ms, STEP.q)


def crossing_targets(noise: NoiseModel, seed: int, budget_s: float, count: int = 2) -> Judged:
    """Judge a sweep of two targets that cross, or of several of which each except :data:`LOST` leads somewhere."""
    rng = np.random.default_rng([seed, count])
    curves = near_curves(rng) if count == 2 else random_ladder(rng, count, LOST[count])
    run = measured(simulated(curves, noise, seed), budget_s)
    truths, answer = true_changes(curves), fastest(run)
    if count == 2:
        claimed = [(c.low, c.high) for c in analyse(run).verdict.crossovers if c.low is not None and c.high is not None]
    else:
        claimed = [(b.low, b.high) for b in answer.boundaries if b.low is not None and b.high is not None]
    covered = tuple(any(low <= truth <= high for truth in truths) for low, high in claimed)
    return Judged(len(truths), covered, tuple(high / low for low, high in claimed), not wrong(answer, curves))
