"""Readings of a frontier's surface: from where along one axis the second target is faster, and the lead at a point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.analysis.numerics import Array, runs, sign_changes, zero_between
from core.evidence import Label
from core.names import are
from core.numbers import rounded
from core.studies.frontier.plan import AXES, Axis, Setting
from core.studies.frontier.record import FrontierStudy
from core.studies.frontier.surface import FrontierMap, runs_at

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


def read_along(study: FrontierStudy, found: FrontierMap, band: float, axis: Axis, at: Setting) -> AxisReading:
    """Read the surface along one axis. ``band`` is the number of standard deviations of an interval to each side.

    The position's interval contains every value at which it is not clear: the test of f = 0, inverted.
    """
    line = _line(study, found, band, axis, at)
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
    said = f"At {where}, {second} {are(second)} faster {reach} {axis} {rounded(value)}"
    text = f"{said} ({_bounds(low, high)}; interpolated).{doubt}"
    return AxisReading(axis, at, reach, value, low, high, text)


def _line(study: FrontierStudy, found: FrontierMap, band: float, axis: Axis, at: Setting) -> _Line | None:
    values = study.plan.values(axis)
    x = np.linspace(math.log2(values[0]), math.log2(values[-1]), ALONG)
    places = np.tile(np.array(at, dtype=float), (ALONG, 1))
    places[:, AXES.index(axis)] = 2.0**x
    runs = runs_at(study, places)
    if runs.sum() < 2 or len(values) < 2:
        return None
    mean, sd = found.at(places[runs])
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
