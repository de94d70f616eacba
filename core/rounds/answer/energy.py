"""Joules per sample from a run's energy windows, and the batch from which a target needs less. Pure.

The windows of a cell are its independent values: their mean has a t interval, or None below three windows. For a GPU
target it is the energy of the card, for a CPU target that of all CPU packages. *Net* subtracts what the same device
used while idle, the mean of the idle windows; their scatter is included in its interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from core.analysis.statistics import MIN_UNITS, t_quantile
from core.base.numbers import number
from core.base.text import sentence_case
from core.rounds.run import EnergyWindow, Run
from core.workload.names import all_of

Source = Literal["counter", "power", "package"]
SOURCES: dict[Source, str] = {
    "counter": "the GPU's energy counter",
    "power": "power samples times time, as the GPU has no energy counter",
    "package": "the CPU packages' energy counters",
}


@dataclass(frozen=True)
class Level:
    """Mean over windows with its 95 % bounds, None below three windows; ``error`` is the standard error of the mean."""

    value: float
    low: float | None
    high: float | None
    error: float
    windows: int

    @property
    def degrees(self) -> int:
        return self.windows - 1


@dataclass(frozen=True)
class EnergyCell:
    """Joules per sample of one target at one batch. ``fed`` is what the CPU packages used while a GPU target ran."""

    target: int
    batch: int
    gross: Level
    net: Level | None
    fed: Level | None
    watts: Level
    source: Source

    @property
    def whole(self) -> float | None:
        """Energy of card and CPU packages together in joules per sample; None if the packages could not be read."""
        return None if self.fed is None else self.gross.value + self.fed.value


Pattern = Literal["crossover", "throughout", "open", "unknown"]


@dataclass(frozen=True)
class EnergyCrossover:
    """Energy comparison of two ``targets``.

    ``less`` needs less energy at ``above`` and every larger measured batch, the other at ``below`` and every smaller
    one. ``throughout``: ``less`` at every batch. ``open``: undecided at some batch, or more than one change.
    ``unknown``: no batch at which both targets have an interval.
    """

    pattern: Pattern
    less: int | None = None
    below: int | None = None
    above: int | None = None
    targets: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Energy:
    """Results of a run's energy windows; ``skipped`` holds each reason for missing ones once.

    ``against`` compares each further target that has a cell with the first one that has.
    """

    cells: tuple[EnergyCell, ...]
    idle_w: dict[int, Level]
    against: tuple[EnergyCrossover, ...]
    skipped: tuple[str, ...]

    @property
    def crossover(self) -> EnergyCrossover:
        """Comparison of the first two targets that have cells."""
        return self.against[0] if self.against else EnergyCrossover("unknown")

    def of(self, target: int) -> tuple[EnergyCell, ...]:
        """Return a target's cells by rising batch."""
        return tuple(cell for cell in self.cells if cell.target == target)


def energy_of(run: Run) -> Energy:
    """Derive everything from the windows of a run; empty without windows."""
    idle: dict[int, list[float]] = defaultdict(list)
    groups: dict[tuple[int, int], list[EnergyWindow]] = defaultdict(list)
    for window in run.energy:
        if _joules(window) is None or not window.length_s:
            continue
        if window.batch is None:
            idle[window.target].append(_watts(window))
        elif window.steps:
            groups[window.target, window.batch].append(window)
    levels = {target: level(watts) for target, watts in idle.items()}
    cells = tuple(_cell(target, batch, windows, levels) for (target, batch), windows in sorted(groups.items()))
    reasons = dict.fromkeys(window.skipped for window in run.energy if window.skipped)
    first, *others = sorted({cell.target for cell in cells}) or [0]
    against = tuple(_crossover(cells, (first, other)) for other in others)
    return Energy(cells, levels, against, tuple(reasons))


def leads(run: Run) -> dict[int, int | None]:
    """Return the target with the lowest mean energy by batch with windows; None if only one has any."""
    means: dict[int, dict[int, float]] = defaultdict(dict)
    for cell in energy_of(run).cells:
        means[cell.batch][cell.target] = cell.gross.value
    return {b: min(mean_j, key=mean_j.__getitem__) if len(mean_j) > 1 else None for b, mean_j in means.items()}


def level(values: Sequence[float]) -> Level:
    """Return the mean and 95 % t interval of at least one value."""
    mean, count = float(np.mean(values)), len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return _bounded(mean, error, count)


def _bounded(mean: float, error: float, count: int) -> Level:
    if count < MIN_UNITS:
        return Level(mean, None, None, math.inf, count)
    half = t_quantile(0.975, count - 1) * error
    return Level(mean, mean - half, mean + half, error, count)


def _joules(window: EnergyWindow) -> float | None:
    return window.card.energy_j if window.card is not None else window.package_j


def _watts(window: EnergyWindow) -> float:
    """Return the mean power, over the length of the card's own summary if it has one."""
    joules = _joules(window)
    assert joules is not None
    return joules / (window.card.length_s if window.card is not None else window.length_s)


def _cell(target: int, batch: int, windows: Sequence[EnergyWindow], idle: dict[int, Level]) -> EnergyCell:
    samples_s = [window.samples / window.length_s for window in windows]
    gross = level([_watts(w) / rate for w, rate in zip(windows, samples_s, strict=True)])
    fed = [w.package_j / w.samples for w in windows if w.card is not None and w.package_j is not None]
    net = None
    if (rest := idle.get(target)) is not None:
        rate = float(np.mean(samples_s))
        error = math.hypot(gross.error, rest.error / rate)
        net = _bounded(gross.value - rest.value / rate, error, min(gross.windows, rest.windows))
    first = windows[0].card
    source: Source = "package" if first is None else first.energy_from or "power"
    return EnergyCell(
        target=target, batch=batch, gross=gross, net=net, fed=level(fed) if len(fed) == len(windows) else None,
        watts=level([_watts(w) for w in windows]), source=source,
    )  # fmt: skip


def _crossover(cells: Sequence[EnergyCell], targets: tuple[int, int]) -> EnergyCrossover:
    """Compare two targets by a t test at every batch that both have windows of, Bonferroni-corrected."""
    by_batch: dict[int, dict[int, Level]] = defaultdict(dict)
    for cell in cells:
        if cell.gross.low is not None and cell.target in targets:
            by_batch[cell.batch][cell.target] = cell.gross
    first, second = targets
    pairs = [(batch, of[first], of[second]) for batch, of in sorted(by_batch.items()) if len(of) == 2]
    if not pairs:
        return EnergyCrossover("unknown", targets=targets)
    signs = [_sign(left, right, len(pairs)) for _, left, right in pairs]
    known = [(batch, sign) for (batch, *_), sign in zip(pairs, signs, strict=True) if sign]
    changes = [(a, b) for a, b in pairwise(known) if a[1] != b[1]]
    if known and not changes and len(known) == len(signs):
        return EnergyCrossover("throughout", less=targets[known[0][1] > 0], targets=targets)
    if len(changes) != 1 or not signs[0] or not signs[-1]:
        return EnergyCrossover("open", targets=targets)
    (below, _), (above, sign) = changes[0]
    undecided = [batch for (batch, *_), clear in zip(pairs, signs, strict=True) if not clear]
    if any(not below < batch < above for batch in undecided):
        return EnergyCrossover("open", targets=targets)
    return EnergyCrossover("crossover", less=targets[sign > 0], targets=targets, below=below, above=above)


def _sign(first: Level, second: Level, tests: int) -> int:
    """Return +1 if the second clearly needs less, −1 if the first does, 0 if it is not clear."""
    difference = first.value - second.value
    half = t_quantile(1 - 0.025 / tests, min(first.degrees, second.degrees)) * math.hypot(first.error, second.error)
    return 0 if abs(difference) <= half else 1 if difference > 0 else -1


def energy_sentence(run: Run, energy: Energy) -> str:
    """Return the answer in one sentence; empty if nothing was measured and nothing refused."""
    if not run.energy:
        return ""
    if len(run.names) == 1 and energy.cells:
        cell = energy.cells[-1]
        at = f"at batch {cell.batch:,}"
        return f"{sentence_case(run.names[0])}{_what(run, 0)} takes {energy_words(cell.gross)} {at} ({run.label})."
    known = [pair for pair in energy.against if pair.pattern != "unknown"]
    if known:
        return " ".join(_of_pair(run, energy, pair) for pair in known)
    return energy.skipped[0] if energy.skipped else "Too few energy windows to compare the targets' energy."


def _of_pair(run: Run, energy: Energy, crossing: EnergyCrossover) -> str:
    who = [f"{name}{_what(run, index)}" for index, name in enumerate(run.names)]
    batches = sorted({cell.batch for cell in energy.cells if cell.target in crossing.targets})
    where = f"batch{'' if len(batches) == 1 else 'es'} {', '.join(f'{batch:,}' for batch in batches)}"
    if crossing.less is None:
        pair = "" if len(run.names) == 2 else f" of {all_of([run.names[target] for target in crossing.targets])}"
        which = "Which target" if len(run.names) == 2 else "Which"
        return f"{which}{pair} needs less energy per sample is not clear from the windows at {where}."
    at = f"wherever it was measured, at {where}"
    if crossing.pattern == "crossover":
        at = f"from a batch between {crossing.below:,} and {crossing.above:,} on"
    other = who[sum(crossing.targets) - crossing.less]
    return f"{sentence_case(who[crossing.less])} needs less energy per sample than {other} {at} ({run.label}, 95 %)."


def fed_sentence(run: Run, energy: Energy) -> str:
    """Describe the energy of the CPU packages while a GPU target ran its largest batch; empty if unknown."""
    cells = [cell for cell in energy.cells if cell.fed is not None]
    if not cells:
        return ""
    cell = max(cells, key=lambda cell: cell.batch)
    assert cell.fed is not None
    return (
        f"That is the GPU alone. While it ran batch {cell.batch:,}, the CPU packages took another "
        f"{energy_words(cell.fed)} ({run.label})."
    )


def energy_words(level: Level) -> str:
    """Return ``120 mJ per sample (95 %: 110 mJ to 130 mJ)``, with a remark if there is no interval."""
    if level.low is None or level.high is None:
        return f"{joules(level.value)} per sample (no interval: {level.windows} of {MIN_UNITS} windows)"
    return f"{joules(level.value)} per sample (95 %: {joules(level.low)} to {joules(level.high)})"


def joules(value: float) -> str:
    """Format an energy in J, mJ or µJ."""
    size = abs(value)
    scale, unit = (1.0, "J") if size >= 1 else (1e3, "mJ") if size >= 1e-3 else (1e6, "µJ")
    return f"{number(scale * value)} {unit}"


def _what(run: Run, target: int) -> str:
    on_gpu = run.plan is not None and run.plan.targets[target].is_gpu
    return " (the card alone)" if on_gpu else " (the CPU packages)"
