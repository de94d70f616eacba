"""Surface of log2 speed-up through a frontier study's measurements, and the choice of the next setting.

A *unit* is one setting in one start of the workers; its value is the median of its rounds' log2(t_first / t_second).
Units of one start share an offset, as processes differ (:mod:`core.rounds.answer.observations`). The surface is a
Gaussian process over log2 of depth, width and batch (:mod:`core.analysis.gaussian_process`).

The next setting follows the straddle rule (Bryan et al. 2005, "Active learning for identifying function threshold
boundaries"): where 1.96 sd − |mean| is largest, a tie is most in doubt. Here it is divided by the square root of the
setting's cost, since a variance falls with time. A setting measured in an earlier start is eligible again: a second
start says more about a near tie than a neighbour in the same one, whose offset is the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from core.analysis.gaussian_process import Observed, Parameters, Prior, Priors, Surface, condition, fit_parameters
from core.analysis.statistics import Array, normal_quantile
from core.base.evidence import Outcome
from core.studies.frontier.record import AXES, FrontierPlan, FrontierRound, FrontierStudy, Setting

START_SCATTER = 0.035  # sd of a log-ratio between starts, before any was seen (measured: benchmarks/repeatability.py)
PRIORS = Priors(
    signal=Prior(0.7, 0.8),
    length=Prior(4.0, 0.7),  # octaves
    start=Prior(START_SCATTER / math.log(2), 0.5),
    drift=Prior(0.02, 0.7),
    unit=Prior(0.02, 0.7),
)
STRADDLE = normal_quantile(0.975)
PRECISE = 0.045  # half width of log2 speed-up (3 %) that suffices
MIN_SETTINGS = 4  # fewer make no surface
MAX_FITTED = 300  # units used to choose the parameters; more cost seconds and change nothing
PRIOR_ROUNDS = 4  # weight of the pooled scatter of rounds beside a unit's own
MEDIAN_VARIANCE = math.pi / 2  # ratio of a normal sample's median variance to that of its mean, for large samples
BARRING: tuple[Outcome, ...] = ("out_of_memory", "crashed", "hung", "skipped")  # a larger setting would not run, either


@dataclass(frozen=True)
class Unit:
    """Value of one setting in one start: log2 speed-up, measured around ``at_s``; ``variance`` is left by its rounds'
    scatter.
    """

    setting: int
    start: int
    value: float
    variance: float
    at_s: float


@dataclass(frozen=True, eq=False)
class FrontierMap:
    """Log2 speed-up over the plan's axes."""

    plan: FrontierPlan
    surface: Surface

    def at(self, places: Array) -> tuple[Array, Array]:
        """Return mean and sd at places (m × 3: depth, width, batch; any positive numbers)."""
        return self.surface.at(coordinates(self.plan, places))

    def simultaneous_band(self, settings: Sequence[Setting]) -> float:
        """Return :meth:`Surface.simultaneous_band` of these settings."""
        return self.surface.simultaneous_band(coordinates(self.plan, np.array(settings, dtype=float)))


def units_of(rounds: Iterable[FrontierRound]) -> tuple[Unit, ...]:
    """Group rounds by setting and start. A unit's scatter is averaged with the pooled one (as in Smyth 2004)."""
    logs: dict[tuple[int, int], list[float]] = defaultdict(list)
    at_s: dict[tuple[int, int], list[float]] = defaultdict(list)
    for item in rounds:
        key = item.setting, item.blocks[0].process
        logs[key].append(math.log2(item.step_ms(0) / item.step_ms(1)))
        at_s[key].append(item.blocks[0].at_s)
    spreads = {key: _spread(values) for key, values in logs.items()}
    known = [spread for key, spread in spreads.items() if len(logs[key]) > 2]
    pooled = float(np.median(known)) if known else START_SCATTER
    units = []
    for key, values in sorted(logs.items()):
        n = len(values)
        scatter2 = (PRIOR_ROUNDS * pooled**2 + (n - 1) * spreads[key] ** 2) / (PRIOR_ROUNDS + n - 1)
        variance = MEDIAN_VARIANCE * scatter2 / n
        units.append(Unit(*key, float(np.median(values)), variance, float(np.mean(at_s[key]))))
    return tuple(units)


def _spread(values: list[float]) -> float:
    """Return the standard deviation from the median absolute deviation, which a stalled round does not move."""
    return 1.4826 * float(np.median(np.abs(np.array(values) - np.median(values))))


def coordinates(plan: FrontierPlan, places: Array) -> Array:
    """Return log2 of the axes that vary, zero in the middle of the plan's range."""
    columns = []
    for axis in plan.free_axes:
        values = plan.values(axis)
        columns.append(np.log2(places[:, AXES.index(axis)]) - 0.5 * math.log2(values[0] * values[-1]))
    return np.stack(columns, axis=1)


def fit_map(plan: FrontierPlan, units: Sequence[Unit], parameters: Parameters) -> FrontierMap:
    """Condition the surface on the units, for given parameters."""
    return FrontierMap(plan, condition(_observed(plan, units), parameters))


def enough_units(plan: FrontierPlan, units: Sequence[Unit]) -> bool:
    """Tell whether there are enough settings for a surface."""
    return len({unit.setting for unit in units}) >= min(MIN_SETTINGS, len(plan.settings))


def choose_parameters(plan: FrontierPlan, units: Sequence[Unit], begin: Parameters | None = None) -> Parameters:
    """Choose the parameters by marginal likelihood."""
    step = math.ceil(len(units) / MAX_FITTED)
    return fit_parameters(_observed(plan, units[::step]), PRIORS, begin)


def _observed(plan: FrontierPlan, units: Sequence[Unit]) -> Observed:
    settings = plan.settings
    return Observed(
        x=coordinates(plan, np.array([settings[unit.setting] for unit in units], dtype=float)),
        y=np.array([unit.value for unit in units]),
        variance=np.array([unit.variance for unit in units]),
        start=np.array([unit.start for unit in units]),
        at_s=np.array([unit.at_s for unit in units]),
    )


def runs_at(study: FrontierStudy, places: Array) -> NDArray[np.bool_]:
    """Tell whether both targets can run at places (m × 3): none is at least as large on every axis as one that could
    not.
    """
    barred = [outcome for outcome in study.outcomes if outcome.outcome in BARRING]
    measured = set(study.measured)  # a setting that failed only later has its numbers
    corners = np.array(
        [study.plan.settings[outcome.setting] for outcome in barred if outcome.setting not in measured], dtype=float
    )
    if not len(corners):
        return np.ones(len(places), dtype=bool)
    slack = 1 - 1e-9  # coordinates of a fine mesh are rounded
    return ~np.any(np.all(places[:, None, :] >= slack * corners[None, :, :], axis=2), axis=1)


def seeds(plan: FrontierPlan) -> tuple[int, ...]:
    """Return the settings that come first: the corners and the centre of the map, by rising work."""
    ends = [{values[0], values[-1]} for values in map(plan.values, AXES)]
    corners = {Setting(*values) for values in product(*ends)}
    centre = Setting(*(values[len(values) // 2] for values in map(plan.values, AXES)))
    wanted = sorted(corners | {centre}, key=lambda s: plan.workload(s).flops_per_sample * s.batch)
    return tuple(plan.settings.index(setting) for setting in wanted)


def next_seed(plan: FrontierPlan, tried: set[int], cost_s: Array) -> int | None:
    """Return the next seed, or the nearest affordable setting (finite ``cost_s``).

    None if all seeds, or all affordable settings, were tried.
    """
    wanted = seeds(plan)
    if len(tried) >= len(wanted):
        return None
    open_ = [i for i in np.flatnonzero(np.isfinite(cost_s)).tolist() if i not in tried]
    if not open_:
        return None
    places = coordinates(plan, np.array(plan.settings, dtype=float))
    aim = places[wanted[len(tried)]]
    return min(open_, key=lambda i: (float(np.sum((places[i] - aim) ** 2)), i))


def next_setting(surface: FrontierMap, visited: set[int], cost_s: Array, anyhow: bool = False) -> int | None:
    """Return the setting at which a tie is most in doubt for its cost, or None if nothing is left in doubt.

    ``visited`` are the settings measured in this start, ``cost_s`` (one per setting) is infinite if a setting cannot be
    measured. With ``anyhow``, settings that are clear already are taken too, the least clear first.
    """
    mean, sd = surface.at(np.array(surface.plan.settings, dtype=float))
    doubt = STRADDLE * sd - np.abs(mean)
    open_ = np.isfinite(cost_s)
    open_[list(visited)] = False
    score = np.where(open_ & (STRADDLE * sd > PRECISE) & (doubt > 0), doubt / np.sqrt(cost_s), 0.0)
    if score.max() > 0:
        return int(np.argmax(score))
    return int(np.argmax(np.where(open_, doubt, -np.inf))) if anyhow and open_.any() else None
