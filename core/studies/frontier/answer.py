"""Answer of a frontier study: measured points, the map interpolated between them, and from where the second is faster.

Everywhere f = log2(t_first / t_second): above zero the second target is faster, 1 means twice as fast. Measured and
interpolated numbers are kept apart; an interval always holds 95 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Literal, cast

import numpy as np
from contourpy import LineType, contour_generator
from numpy.typing import NDArray

from core.analysis.numerics import Array, runs, sign_changes, zero_between
from core.analysis.statistics import CONFIDENCE, normal_quantile, t_quantile
from core.base.evidence import Label, Outcome
from core.base.numbers import counted, percent, rounded
from core.base.schema import UserError
from core.studies.experiment.effects import log_effect
from core.studies.frontier.record import AXES, Axis, FrontierRound, FrontierStudy, Setting
from core.studies.frontier.surface import FrontierMap, choose_parameters, enough_units, fit_map, runs_at, units_of
from core.workload.names import are

Sign = Literal["first", "second", "tie"]
Reach = Literal["from", "up to", "throughout", "nowhere", "unresolved"]
ALONG = 257  # points at which a line is evaluated


@dataclass(frozen=True)
class AxisReading:
    """Range along ``axis`` in which the second target is faster, the other two axes as in ``at``.

    ``reach`` "from" (faster at ``value`` and above) and "up to" (faster at ``value`` and below) have a value; ``low``
    and ``high`` bound it, None if the bound lies outside the map. Other reaches have neither.
    """

    axis: Axis
    at: Setting
    reach: Reach
    value: float | None
    low: float | None
    high: float | None
    sentence: str
    label: Literal["interpolated"] = "interpolated"


@dataclass(frozen=True)
class PointReading:
    """Reading at the operating point. ``ahead`` is "tie" if the interval contains zero; ``label`` tells measured from
    interpolated.
    """

    setting: Setting
    ahead: Sign
    log2_speed_up: float
    low: float
    high: float
    label: Label | Literal["interpolated"]
    sentence: str


@dataclass(frozen=True, eq=False)
class _Line:
    """Line through the map: positions (log2), mean, and 1 where the second is clearly faster, −1 where the first is."""

    x: Array
    mean: Array
    signs: Array


def read_along(study: FrontierStudy, surface: FrontierMap, band: float, axis: Axis, at: Setting) -> AxisReading:
    """Read the surface along one axis. ``band`` is the number of standard deviations of an interval to each side.

    The position's interval contains every value at which it is not clear: the test of f = 0, inverted.
    """
    line = _line(study, surface, band, axis, at)
    first, second = study.plan.names
    where = " and ".join(f"{a} {getattr(at, a):,}" for a in AXES if a != axis)
    states = [(int(line.signs[a]), a, b - 1) for a, b in runs(line.signs)] if line is not None else []
    decided = [state for state in states if state[0]]
    kinds = [state[0] for i, state in enumerate(decided) if i == 0 or state[0] != decided[i - 1][0]]
    if line is not None and len(states) == 1 and kinds:
        reach: Reach = "throughout" if kinds == [1] else "nowhere"
        ahead = second if kinds == [1] else first
        return AxisReading(
            axis, at, reach, None, None, None, f"At {where}, {ahead} {are(ahead)} faster at every {axis} of the map."
        )
    change = _change(line, states, kinds) if line is not None else None
    if line is None or change is None:
        unclear = f"At {where}, it is not clear from which {axis} on {second} {are(second)} faster."
        return AxisReading(axis, at, "unresolved", None, None, None, unclear)
    value, low, high, rises = change
    reach = "from" if rises else "up to"
    doubt = " Elsewhere on this line it is not clear." if len(states) > 3 else ""
    reading = f"At {where}, {second} {are(second)} faster {reach} {axis} {rounded(value)}"
    text = f"{reading} ({_bounds(low, high)}; interpolated).{doubt}"
    return AxisReading(axis, at, reach, value, low, high, text)


def _line(study: FrontierStudy, surface: FrontierMap, band: float, axis: Axis, at: Setting) -> _Line | None:
    values = study.plan.values(axis)
    x = np.linspace(math.log2(values[0]), math.log2(values[-1]), ALONG)
    places = np.tile(np.array(at, dtype=float), (ALONG, 1))
    places[:, AXES.index(axis)] = 2.0**x
    runs = runs_at(study, places)
    if runs.sum() < 2 or len(values) < 2:
        return None
    mean, sd = surface.at(places[runs])
    return _Line(x[runs], mean, np.where(np.abs(mean) > band * sd, np.sign(mean), 0.0))


def _change(
    line: _Line, states: list[tuple[int, int, int]], kinds: list[int]
) -> tuple[float, float | None, float | None, bool] | None:
    """Return value, bounds and direction of the single change of sign; None if there is none, or more than one.

    ``states`` are stretches of equal sign: sign, first and last index.
    """
    x, mean = line.x, line.mean
    crossed = sign_changes(mean)
    if len(kinds) == 2:
        last_before = max(s[2] for s in states if s[0] == kinds[0])
        first_after = min(s[1] for s in states if s[0] == kinds[1] and s[2] > last_before)
        low, high = 2.0 ** x[last_before], 2.0 ** x[first_after]
        rises, begin, end = kinds[0] < 0, last_before, first_after
    elif len(kinds) == 1 and len(crossed) == 1:  # one side is decided; the change lies in the unclear part at an edge
        rises = bool(mean[crossed[0]] < 0)
        before = (kinds[0] > 0) != rises  # the decided stretch comes before the change
        decided = [s for s in states if s[0]]
        begin, end = (max(s[2] for s in decided), len(x) - 1) if before else (0, min(s[1] for s in decided))
        low, high = (2.0 ** x[begin], None) if before else (None, 2.0 ** x[end])
    else:
        return None
    at = [zero_between(x, mean, i) for i in crossed if begin <= i < end]
    return (float(2.0 ** np.mean(at)), low, high, rises) if at else None


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"95 %: {rounded(low)} to {rounded(high)}"
    return f"95 %: {rounded(low)} or more" if low is not None else f"95 %: {rounded(high or 0.0)} or less"


def lead_sentence(setting: Setting, names: tuple[str, str], log2: float, low: float, high: float, how: str) -> str:
    """Describe which target is faster at a setting, and by how much."""
    where = f"At {setting.words},"
    if low <= 0 <= high:
        span = f"{names[1]} {are(names[1])} {2**low:.2f} to {2**high:.2f} times as fast as {names[0]}"
        return f"{where} it is not clear which target is faster: {span} (95 %; {how})."
    ahead, other = (names[1], names[0]) if log2 > 0 else (names[0], names[1])
    times, least, most = (2**v for v in ((log2, low, high) if log2 > 0 else (-log2, -high, -low)))
    span = f"95 %: {least:.2f} to {most:.2f}"
    return f"{where} {ahead} {are(ahead)} {times:.2f} times as fast as {other} ({span}; {how})."


def sign_of(low: float, high: float) -> Sign:
    return "tie" if low <= 0 <= high else "second" if low > 0 else "first"


VerdictCode = Literal["frontier", "first throughout", "second throughout", "unresolved"]
PRIOR_STARTS = 2  # degrees of freedom of the prior from other machines, added to the starts seen
FINE = 49  # points along each axis of a slice
NEARBY = 1.0
"""Grid steps from a setting measured in the same slice within which the map is shown: colours beyond it would rest on
other slices alone."""


@dataclass(frozen=True)
class MeasuredPoint:
    """Setting that has rounds. Bounds are None if the rounds are too few. Step times are medians, ms."""

    setting: Setting
    log2_speed_up: float
    low: float | None
    high: float | None
    first_ms: float
    second_ms: float
    rounds: int
    starts: int
    label: Label


@dataclass(frozen=True)
class MapCell:
    """Setting of the grid on the surface. ``second_ahead`` is the probability that the second is faster.

    Settings that failed or cannot fit have no cell. ``measured`` says whether it has rounds of its own; the number is
    interpolated all the same.
    """

    setting: Setting
    mean: float
    sd: float
    second_ahead: float
    measured: bool
    label: Literal["interpolated"] = "interpolated"


@dataclass(frozen=True)
class FailedSetting:
    setting: Setting
    target: str | None
    outcome: Outcome
    reason: str


@dataclass(frozen=True, eq=False)
class Line:
    """One piece of a contour: positions on the slice's two axes, in their own units (not logarithms)."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class FrontierSlice:
    """The map at ``fixed`` = ``value``. Matrices are y × x.

    ``mean``, ``sd`` and ``measured`` are at the grid's values ``x`` and ``y``, ``fine_mean`` and ``fine_sd`` at
    ``fine_x`` and ``fine_y``; means are NaN where a target cannot run, the fine ones also far from what was measured in
    the slice. ``contour`` is where the targets tie, ``lower`` and ``upper`` are where the upper and the lower bound of
    f's interval is zero: between them it is not clear which is faster.
    """

    fixed: Axis
    value: float
    x_axis: Axis
    y_axis: Axis
    x: tuple[int, ...]
    y: tuple[int, ...]
    mean: Array
    sd: Array
    measured: Array
    fine_x: tuple[float, ...]
    fine_y: tuple[float, ...]
    fine_mean: Array
    fine_sd: Array
    contour: tuple[Line, ...]
    lower: tuple[Line, ...]
    upper: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class FrontierAnswer:
    """Answer of a frontier study; ``sentence`` is the verdict.

    ``cells`` are the settings of ``plan.grid`` that can run; ``at`` is the setting of the readings: the operating
    point, or the middle of the map. ``readings`` are along width, batch and depth, if they vary. ``band`` is the number
    of standard deviations to each side that hold the whole map at once (:meth:`Surface.simultaneous_band`): the map and
    its readings look at many settings, the operating point is one that was chosen before.
    """

    study: FrontierStudy
    surface: FrontierMap
    code: VerdictCode
    sentence: str
    reason: str
    points: tuple[MeasuredPoint, ...]
    cells: tuple[MapCell, ...]
    failed: tuple[FailedSetting, ...]
    at: Setting
    readings: tuple[AxisReading, ...]
    point: PointReading | None
    band: float


def frontier_answer(study: FrontierStudy) -> FrontierAnswer:
    """Derive the answer. Raises UserError if too few settings were measured for a map."""
    plan, units = study.plan, units_of(study.rounds)
    if not enough_units(plan, units):
        raise UserError(f"Only {len(units)} settings were measured, too few for a map; give it more time.")
    surface = fit_map(plan, units, choose_parameters(plan, units))
    points = _points(study)
    at_one = band_of(study)
    cells = _cells(study, surface, at_one)
    band = map_band(study, surface, cells)
    middle = Setting(*(values[len(values) // 2] for values in map(plan.values, AXES)))
    at = plan.point or middle
    axes: tuple[Axis, ...] = ("width", "batch", "depth")
    readings = tuple(read_along(study, surface, band, axis, at) for axis in axes if axis in plan.free_axes)
    point = _point(study, surface, points, at_one) if plan.point is not None else None
    code = _code(cells, band)
    return FrontierAnswer(
        study=study,
        surface=surface,
        code=code,
        sentence=_verdict(study, code, cells, readings, point, band),
        reason=_reason(study, len(units)),
        points=points,
        cells=cells,
        failed=_failed(study),
        at=at,
        readings=readings,
        point=point,
        band=band,
    )


def band_of(study: FrontierStudy) -> float:
    """Return the number of standard deviations of a single setting's interval to each side.

    It is Student's t, since the deviation between starts of the workers, which all of the map shares, is known from a
    few of them only: with the normal's 1.96 intervals held too little on noisy machines (measured:
    benchmarks/frontier.py).
    """
    return t_quantile(1 - (1 - CONFIDENCE) / 2, study.starts + PRIOR_STARTS)


def map_band(study: FrontierStudy, surface: FrontierMap, cells: tuple[MapCell, ...]) -> float:
    """Return the number of standard deviations to each side that hold the whole map at once, widened as
    :func:`band_of` widens a single setting's.

    With a single setting's band, 12 % of noisy simulated maps were wrong about a setting (measured:
    benchmarks/frontier.py).
    """
    if not cells:
        return band_of(study)
    widened = band_of(study) / normal_quantile(1 - (1 - CONFIDENCE) / 2)
    return widened * surface.simultaneous_band([cell.setting for cell in cells])


def reading(answer: FrontierAnswer, axis: Axis, at: Setting) -> AxisReading:
    """Return where along ``axis`` the second target is faster, with the others as in ``at`` (any values inside the
    map).
    """
    return read_along(answer.study, answer.surface, answer.band, axis, at)


def slice_of(answer: FrontierAnswer, fixed: Axis, value: float) -> FrontierSlice:
    """Return the map of the two other axes at ``fixed`` = ``value`` (any value inside the map)."""
    plan = answer.study.plan
    y_axis, x_axis = (axis for axis in AXES if axis != fixed)
    x, y = plan.values(x_axis), plan.values(y_axis)
    fine_x, fine_y = _fine(x), _fine(y)
    mean, sd = _matrices(answer, fixed, value, (x_axis, np.array(x, float)), (y_axis, np.array(y, float)))
    fine_mean, fine_sd = _matrices(answer, fixed, value, (x_axis, fine_x), (y_axis, fine_y))
    dots = [
        (getattr(p.setting, x_axis), getattr(p.setting, y_axis))
        for p in answer.points
        if getattr(p.setting, fixed) == value
    ]
    fine_mean = np.where(_near(fine_x, fine_y, dots, (_step(x), _step(y))), fine_mean, np.nan)
    have = {(getattr(p.setting, fixed), getattr(p.setting, x_axis), getattr(p.setting, y_axis)) for p in answer.points}
    measured = [[(value, a, b) in have for a in x] for b in y]
    lines = [zero_lines(fine_x, fine_y, fine_mean + k * answer.band * fine_sd) for k in (0, 1, -1)]
    return FrontierSlice(
        fixed=fixed,
        value=value,
        x_axis=x_axis,
        y_axis=y_axis,
        x=x,
        y=y,
        mean=mean,
        sd=sd,
        measured=np.array(measured),
        fine_x=tuple(fine_x.tolist()),
        fine_y=tuple(fine_y.tolist()),
        fine_mean=fine_mean,
        fine_sd=fine_sd,
        contour=lines[0],
        lower=lines[1],
        upper=lines[2],
    )


def _near(x: Array, y: Array, dots: list[tuple[int, int]], apart: tuple[float, float]) -> NDArray[np.bool_]:
    """Return (y × x) which places lie within :data:`NEARBY` steps of a dot; ``apart`` is a step in octaves per axis."""
    near = np.zeros((len(y), len(x)), dtype=bool)
    for across, up in dots:
        steps = (np.abs(np.log2(axis / dot)) / step for axis, dot, step in ((x, across, apart[0]), (y, up, apart[1])))
        close = [along <= NEARBY + 1e-9 for along in steps]
        near |= close[0][None, :] & close[1][:, None]
    return near


def _step(values: tuple[int, ...]) -> float:
    """Return the widest gap between two neighbouring values of the grid, in octaves."""
    return max((math.log2(b / a) for a, b in pairwise(values)), default=1.0)


def _fine(values: tuple[int, ...]) -> Array:
    return np.geomspace(values[0], values[-1], FINE) if len(values) > 1 else np.array(values, dtype=float)


def _matrices(
    answer: FrontierAnswer, fixed: Axis, value: float, across: tuple[Axis, Array], up: tuple[Axis, Array]
) -> tuple[Array, Array]:
    """Return mean and sd, y × x; the mean is NaN where a target cannot run."""
    x, y = np.meshgrid(across[1], up[1])
    columns = {fixed: np.full(x.size, value), across[0]: x.ravel(), up[0]: y.ravel()}
    places = np.stack([columns[axis] for axis in AXES], axis=1)
    mean, sd = answer.surface.at(places)
    mean = np.where(runs_at(answer.study, places), mean, np.nan)
    return mean.reshape(x.shape), sd.reshape(x.shape)


def zero_lines(x: Array, y: Array, z: Array) -> tuple[Line, ...]:
    """Return the lines where ``z`` (y × x, linear in log2 along the mesh's edges) is zero; a mesh cell with a NaN
    corner has none.

    A closed line ends at its beginning. Empty if an axis has a single value.
    """
    if min(z.shape) < 2:
        return ()
    mesh = contour_generator(np.log2(x), np.log2(y), z, line_type=LineType.Separate, corner_mask=False)
    lines = cast(list[Array], mesh.lines(0.0))
    return tuple(Line(*(tuple(axis) for axis in np.exp2(line).T.tolist())) for line in lines)


def _points(study: FrontierStudy) -> tuple[MeasuredPoint, ...]:
    rounds: dict[int, list[FrontierRound]] = defaultdict(list)
    for item in study.rounds:
        rounds[item.setting].append(item)
    return tuple(_measured(study, setting, rounds[setting]) for setting in sorted(rounds))


def _measured(study: FrontierStudy, setting: int, rounds: list[FrontierRound]) -> MeasuredPoint:
    logs: dict[int, list[float]] = defaultdict(list)
    for item in rounds:
        logs[item.blocks[0].process].append(math.log(item.step_ms(0) / item.step_ms(1)))
    center, half = (value / math.log(2) for value in log_effect(logs))
    known = math.isfinite(half)
    return MeasuredPoint(
        setting=study.plan.settings[setting],
        log2_speed_up=center,
        low=center - half if known else None,
        high=center + half if known else None,
        first_ms=float(np.median([item.step_ms(0) for item in rounds])),
        second_ms=float(np.median([item.step_ms(1) for item in rounds])),
        rounds=len(rounds),
        starts=len(logs),
        label=study.label,
    )


def _cells(study: FrontierStudy, surface: FrontierMap, band: float) -> tuple[MapCell, ...]:
    grid = study.plan.grid
    places = np.array(grid, dtype=float)
    mean, sd = surface.at(places)
    runs, have = runs_at(study, places), set(study.measured)
    scale = normal_quantile(1 - (1 - CONFIDENCE) / 2) / band  # makes probabilities no more certain than the intervals
    return tuple(
        MapCell(grid[i], float(mean[i]), float(sd[i]), NormalDist().cdf(float(scale * mean[i] / sd[i])), i in have)
        for i in range(len(grid))
        if runs[i]
    )


def _point(study: FrontierStudy, surface: FrontierMap, points: tuple[MeasuredPoint, ...], band: float) -> PointReading:
    """Return the measured reading if it has rounds enough for an interval, else the interpolated one."""
    setting = study.plan.point
    assert setting is not None
    own = next((p for p in points if p.setting == setting and p.low is not None and p.high is not None), None)
    if own is not None and own.low is not None and own.high is not None:
        value, low, high = own.log2_speed_up, own.low, own.high
        text = lead_sentence(setting, study.plan.names, value, low, high, own.label)
        return PointReading(setting, sign_of(low, high), value, low, high, own.label, text)
    mean, sd = (float(interpolated[0]) for interpolated in surface.at(np.array([setting], dtype=float)))
    low, high = mean - band * sd, mean + band * sd
    text = lead_sentence(setting, study.plan.names, mean, low, high, "interpolated")
    return PointReading(setting, sign_of(low, high), mean, low, high, "interpolated", text)


def _failed(study: FrontierStudy) -> tuple[FailedSetting, ...]:
    plan = study.plan
    names = {None: None, 0: plan.target_names[0], 1: plan.target_names[1]}
    return tuple(FailedSetting(plan.settings[o.setting], names[o.target], o.outcome, o.reason) for o in study.outcomes)


def _code(cells: tuple[MapCell, ...], band: float) -> VerdictCode:
    signs = {sign_of(cell.mean - band * cell.sd, cell.mean + band * cell.sd) for cell in cells}
    if {"first", "second"} <= signs:
        return "frontier"
    if signs == {"first"}:
        return "first throughout"
    return "second throughout" if signs == {"second"} else "unresolved"


def _verdict(
    study: FrontierStudy,
    code: VerdictCode,
    cells: tuple[MapCell, ...],
    readings: tuple[AxisReading, ...],
    point: PointReading | None,
    band: float,
) -> str:
    """Describe the operating point, then where the second is faster; without a point, the map as a whole."""
    first, second = study.plan.names
    change = next((r for r in readings if r.reach in ("from", "up to")), None)
    parts = [point.sentence] if point is not None else []
    if code == "first throughout" or code == "second throughout":
        faster = first if code == "first throughout" else second
        parts.append(f"{faster} {are(faster)} faster throughout the map (interpolated).")
    elif code == "unresolved":
        parts.append("It is not clear where on the map the faster target changes; give it more time or a wider range.")
    elif point is None or change is None:
        parts.append(_clear_shares(study, cells, band))
    if change is not None and code in ("frontier", "unresolved"):
        parts.append(change.sentence)
    return " ".join(parts)


def _clear_shares(study: FrontierStudy, cells: tuple[MapCell, ...], band: float) -> str:
    """Return the share of the map at which either target is clearly faster; the rest is not clear."""
    names = dict(zip(("first", "second"), study.plan.names, strict=True))
    signs = [sign_of(cell.mean - band * cell.sd, cell.mean + band * cell.sd) for cell in cells]
    parts = [
        f"{names[side]} {are(names[side])} clearly faster at {percent(signs.count(side) / len(cells))}"
        for side in ("second", "first")
    ]
    open_ = signs.count("tie") / len(cells)
    rest = f"; at {percent(open_)} it is not clear" if open_ else ""
    return f"{parts[0]} of the map's settings, {parts[1]}{rest} (interpolated)."


def _reason(study: FrontierStudy, units: int) -> str:
    count, starts = len(study.measured), study.starts
    return (
        f"{count:,} of {len(study.plan.settings):,} settings were measured, in {units:,} visits during "
        f"{counted(starts, 'start')} of the workers; the map between them is interpolated."
    )
