"""Estimate of the time that a run of the user's own still needs until its verdict is clear, and the run to resume.
Pure.

A sweep's independent observations are starts of its workers (:mod:`core.rounds.answer.observations`). Their scatter
tells how many more make an interval as narrow as wanted, and the duration of a start in this run how long that takes.
It is an estimate: the scatter is known from a few starts only, so it is taken a little wider than seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

import numpy as np

from core.analysis.statistics import MIN_UNITS, Array, round_time_s, t_quantile, units_for
from core.base.numbers import duration
from core.rounds.answer import loop
from core.rounds.answer.answer import Answer, Boundary, Crossover
from core.rounds.answer.fastest import margin_of
from core.rounds.answer.observations import ALPHA, observe
from core.rounds.plan import energy_reserve_s
from core.rounds.run import Run
from core.workload.spec import MAX_BUDGET_S

SAFETY = 1.35  # factor on the scatter, which is known from a few starts only
LEAST_SHARE = 0.45  # least share of the time so far: a resumed sweep gets at least 30 % of all its time
SHARPER = 0.5  # share of the width to aim at if the interval is as narrow as asked already
DF_A_UNIT = 1.5  # degrees of freedom per start: several batches share the scatter between starts
LOOKS = 12  # about the divisor of a claim's level after six starts
FEW_STARTS = MIN_UNITS + 1
UNKNOWN_START_S = 10.0  # length of a start with its measurements, if the run does not show it

Aim = Literal["interval", "clear", "narrower"]
"""``interval``: none yet, or one over too few starts; ``clear``: the verdict is not; ``narrower``: it is, and only the
intervals can improve."""


@dataclass(frozen=True)
class MoreTime:
    """Estimated ``seconds`` until the ``aim`` should be reached; None if not even an hour more would suffice.

    ``width``: the relative width of the crossover's interval to stop at, if that is the aim.
    """

    aim: Aim
    seconds: float | None
    width: float | None = None


def more_time(run: Run, answer: Answer) -> MoreTime:
    """Estimate how much longer a run with rounds and a plan must continue."""
    starts = _starts(run)
    aim, needed, width = _needed(run, answer)
    too_few = aim == "clear" and starts < MIN_UNITS  # too few starts to estimate what is left
    if too_few or (needed is None and starts < FEW_STARTS):
        aim, needed = "interval", max(needed or 0, FEW_STARTS)
    if needed is None:
        return MoreTime(aim, None, width)
    more = max(1, needed - starts)
    return MoreTime(aim, round_time_s(lambda s: _measuring_s(run, s) >= more * _start_s(run)), width)


def extended(run: Run, more_s: float, width: float | None = None) -> Run:
    """Return the run with so much more time than it has had, to be resumed: its records are kept, traces included.

    ``width`` is the relative width of the crossover's interval to stop at. Raises UserError, as a plan does, for more
    than a day in all.
    """
    assert run.plan is not None
    plan = run.plan
    changes = {
        "budget_s": min(MAX_BUDGET_S, max(plan.budget_s, run.elapsed_s + more_s)),
        "crossover_width": plan.crossover_width if width is None else min(plan.crossover_width, width),
        "trace": plan.trace and not run.traces,
    }
    return run.model_copy(update={"plan": plan.model_copy(update=changes)})


def _needed(run: Run, answer: Answer) -> tuple[Aim, int | None, float | None]:
    """Return the aim, the total number of starts it takes, and the crossover width aimed at."""
    if not answer.verdict.has_interval:
        return "interval", MIN_UNITS, None
    kind, count = answer.verdict.kind, len(run.names)
    if count > 2:
        return _of_many(run, answer)
    if kind == "crossover":
        needed, width = _narrower(run, answer.verdict.crossovers)
        return "narrower", needed, width
    if kind == "inconclusive":
        pair = _pair(run, 0, 1)
        return "clear", None if pair is None else pair.until_clear(margin_of(run, None)), None
    return "narrower", MIN_UNITS, None


def _of_many(run: Run, answer: Answer) -> tuple[Aim, int | None, float | None]:
    """Return the same for three or more targets: open bands should become clear, else boundaries narrower."""
    ranking = answer.fastest
    open_bands = [band for band in ranking.bands if len(band.targets) > 1 and not band.level] if ranking else []
    if ranking is None or not ranking.bands:
        return "clear", MIN_UNITS, None
    if not open_bands:
        needed, width = _narrower(run, ranking.boundaries)
        return "narrower", needed, width
    statements, most = math.comb(len(run.names), 2), MIN_UNITS
    for band in open_bands:
        first, *others = band.targets
        for other in others:
            pair = _pair(run, first, other)
            inside = None if pair is None else pair.within(band.from_batch, band.to_batch)
            needed = None if inside is None else inside.until_clear(margin_of(run, None), statements)
            if needed is None:
                return "clear", None, None
            most = max(most, needed)
    return "clear", most, None


@dataclass(frozen=True)
class _Pair:
    """Two targets at their common batches: the log-ratio, its error, and the standard deviation of one start of the
    workers.
    """

    batches: Array
    center: Array
    error: Array
    deviation: Array

    def within(self, low: float, high: float) -> _Pair | None:
        at = (self.batches >= low * 0.99) & (self.batches <= high * 1.01)
        return _Pair(self.batches[at], self.center[at], self.error[at], self.deviation[at]) if at.any() else None

    def until_clear(self, margin: float, statements: int = 1) -> int | None:
        """Return the starts after which one of the possible verdicts should stand: one target faster at every batch,
        within the margin at every batch, or a change of the faster one with a clear batch on each side of it.
        """
        center = self._likely()
        level, sides = math.log1p(margin), (center > 0, center < 0)
        batches = range(len(center))
        clear = [self._units(j, abs(center[j]), LOOKS * statements * len(batches)) for j in batches]
        tie = [self._units(j, level - abs(center[j]), LOOKS * statements) for j in batches]
        ways = [_all(clear) if not all(side.any() for side in sides) else None, _all(tie)]
        if all(side.any() for side in sides):
            ways.append(_all([_least([clear[j] for j in np.flatnonzero(side)]) for side in sides]))
        return _least(ways)

    def _likely(self) -> Array:
        """Shrink the log-ratios towards their mean by what chance alone makes them differ (James and Stein 1961)."""
        off = self.center - self.center.mean()
        chance = (len(off) - 3) * float(np.mean(self.error**2))
        scatter = float(np.sum(off**2))
        kept = 1.0 if len(off) < 4 or not math.isfinite(chance) else max(0.0, 1 - chance / max(scatter, 1e-12))
        return np.asarray(self.center.mean() + kept * off)

    def _units(self, place: int, wanted: float, statements: int) -> int | None:
        deviation = float(self.deviation[place])
        if wanted <= 0 or not math.isfinite(deviation):
            return None
        return units_for(SAFETY * deviation, wanted, df_a_unit=DF_A_UNIT, statements=statements)


def _all(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def _least(counts: list[int | None]) -> int | None:
    return min((count for count in counts if count is not None), default=None)


def _pair(run: Run, first: int, second: int) -> _Pair | None:
    """Return the pair, or None if the two share no batch."""
    seen = observe(run, first, second)
    if len(seen.batches) == 0:
        return None
    deviation = seen.estimate.error * np.sqrt(np.maximum(1, seen.counts))
    return _Pair(seen.batches, seen.estimate.center, seen.estimate.error, deviation)


def _narrower(run: Run, changes: tuple[Crossover, ...] | tuple[Boundary, ...]) -> tuple[int | None, float | None]:
    """Return the starts after which the widest interval is as narrow as the plan asked, or half as wide, and that
    width.
    """
    wanted_width = run.plan.crossover_width if run.plan is not None else 0.25
    bounded = [
        (change.batch, change.low, change.high)
        for change in changes
        if change.low is not None and change.high is not None
    ]
    if not bounded:
        return MIN_UNITS, None
    width, ratio = max(((high - low) / batch, math.log(high / low)) for batch, low, high in bounded)
    wanted = wanted_width if width > wanted_width else SHARPER * width
    starts = max(MIN_UNITS, _starts(run))
    level = 1 - ALPHA / (2 * LOOKS)
    half = t_quantile(level, int(DF_A_UNIT * (starts - 1))) / math.sqrt(starts)  # in standard deviations of one start
    return units_for(SAFETY, half * wanted / max(ratio, 1e-9), df_a_unit=DF_A_UNIT, statements=LOOKS), wanted


def _measuring_s(run: Run, more_s: float) -> float:
    """Return what remains for rounds of so many seconds more, after the sweep's reserves for everything else."""
    if more_s < LEAST_SHARE * run.elapsed_s:
        return 0.0
    plan = extended(run, more_s).plan
    assert plan is not None
    kept_s = loop.reserve_s(plan)
    if any(window.steps for window in run.energy):
        kept_s += energy_reserve_s(plan)
    return more_s - kept_s


def _start_s(run: Run) -> float:
    """Return the seconds from one start of the workers to the next."""
    apart = [after - before for (_, before), (_, after) in pairwise(sorted(_begins(run)))]
    return median(apart) if apart else run.elapsed_s or UNKNOWN_START_S


def _starts(run: Run) -> int:
    return len({block.process for item in run.rounds for block in item.blocks})


def _begins(run: Run) -> Iterator[tuple[int, float]]:
    """Yield the starts of the workers and the time of the first block of each."""
    begins_s: dict[int, float] = {}
    for item in run.rounds:
        for block in item.blocks:
            begins_s[block.process] = min(block.at_s, begins_s.get(block.process, math.inf))
    yield from begins_s.items()


Action = Literal["close_programs", "measure_more", "measure_batch", "none"]
CLOSE = "Close other programs, then measure again."
TOO_SMALL = "The difference is too small to become clear within an hour."
AT_AN_END = ("straddles_at_largest", "straddles_at_smallest")


@dataclass(frozen=True)
class NextStep:
    """Recommended next step.

    ``sentence`` is empty if nothing is left to do; ``more`` is set for ``measure_more``, ``batch`` for
    ``measure_batch``. ``urgent``: without this step there is no answer.
    """

    action: Action = "none"
    sentence: str = ""
    more: MoreTime | None = None
    batch: int | None = None
    urgent: bool = False


NOTHING = NextStep()


def next_step(run: Run, answer: Answer) -> NextStep:
    """Return the next step for this verdict; nothing for a run still in progress or a published one.

    A busy or unsteady machine comes first: more time on it gives more of the same.
    """
    verdict = answer.verdict
    if run.status == "running" or run.label == "published":
        return NOTHING
    is_open = not answer.claims
    if not verdict.machine.quiet or verdict.machine.unstable:
        return NextStep("close_programs", CLOSE, urgent=is_open)
    more = more_time(run, answer) if run.plan is not None else None
    if more is not None and more.aim != "narrower" and more.seconds is not None:
        return NextStep("measure_more", _more_words(more, verdict.has_interval), more, urgent=True)
    if verdict.next_batch is not None and (verdict.kind == "ahead" or verdict.reason in AT_AN_END):
        text = f"Next batch size worth measuring: {verdict.next_batch:,}."
        return NextStep("measure_batch", text, batch=verdict.next_batch)
    if more is None or verdict.kind == "ahead":
        return NOTHING
    if more.seconds is None:
        return NextStep(sentence=TOO_SMALL) if more.aim == "clear" else NOTHING
    return NextStep("measure_more", _more_words(more, verdict.has_interval), more)


def _more_words(more: MoreTime, has_interval: bool) -> str:
    about = f"About {duration(more.seconds)} more"
    if not has_interval:
        return f"Too few starts for an interval. {about} would give one."
    return {
        "interval": f"Too few starts of the workers to say more. {about} would make the intervals narrower.",
        "clear": f"{about} will probably make it clear.",
        "narrower": f"{about} would make the intervals narrower.",
    }[more.aim]
