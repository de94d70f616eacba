"""Measurements that would narrow the interval of a modelled card, and the interval that each would leave.

In logs, the half widths of a speed-up's interval consist of the CPU's noise, the model's error and what the host's
costs leave open, added in quadrature. A measurement removes one part and leaves the others; the rest around today's
estimate is the interval if the measurement confirmed that estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from core.hardware.catalogue import GpuSpec
from core.hardware.conditions import Conditions
from core.hardware.crossing import ModelledSpeedUp
from core.hardware.host import HostCosts
from core.hardware.host_study import as_if_measured
from core.hardware.interval import Modelled, class_of, errors, modelled_step
from core.hardware.recorded import SPAN_95, card_share, credibility, host_part
from core.spec import Target, Workload

LEAST_GAIN = 0.05
"""A measurement that would take less than this share off the width, in logs, is not named."""

Half = tuple[float, float]
"""Half widths in logs, downwards and upwards, both at least 0."""
Measurement = Literal["host study", "recorded sweep"]
"""``host study``: of the host, here or from the file of a self-check on the machine with the card. ``recorded sweep``:
of one other network of the family on such a card.
"""


@dataclass(frozen=True)
class Modelling:
    """The settings with which the cards were modelled."""

    workload: Workload
    target: Target
    costs: HostCosts
    conditions: Conditions


@dataclass(frozen=True)
class Parts:
    """The parts of the 95 % interval of a modelled step, ``model`` and ``host``, which add in quadrature.

    ``host`` is what the host's costs leave open; ``measured_model`` and ``measured_host`` are both parts once the host
    is measured. ``card`` is the share (0 to 1) of the square of ``model`` that one recorded sweep removes.
    """

    model: Half
    host: Half
    measured_model: Half
    measured_host: Half
    card: float


@dataclass(frozen=True)
class Narrowed:
    """The 95 % bounds of the speed-up after a measurement that leaves its estimate unchanged."""

    measurement: Measurement
    low: float
    high: float
    resolves: bool
    label: Literal["modelled"] = "modelled"


def parts_of(spec: GpuSpec, step: Modelled, how: Modelling) -> Parts:
    """Split the interval of a step that no recording has moved into its parts.

    Only this function knows how :mod:`core.hardware.interval` makes an interval.
    """
    assumed = how.costs.label == "assumed"
    found = class_of(errors(), spec, how.workload, step.region, host_known=True)
    assert found is not None, "a step without a class has no number"
    host = _host(spec, step, how, how.costs)
    model = _less(_half_widths(step), host)
    measured = _measured(spec, step, how) if assumed else (model, host)
    return Parts(
        model=model,
        host=host,
        measured_model=measured[0],
        measured_host=measured[1],
        card=1 - credibility(card_share(found.between, (found.high_95 - found.low_95) / SPAN_95), 1)[1] ** 2,
    )


def _measured(spec: GpuSpec, step: Modelled, how: Modelling) -> tuple[Half, Half]:
    """Return the model's and the host's part once the host is measured and found to be as assumed."""
    costs = as_if_measured(how.costs)
    known = modelled_step(spec, how.workload, how.target, step.batch, costs.host, how.conditions)
    assert isinstance(known, Modelled), "a step that has a number where the host is assumed has one where it is known"
    return _half_widths(known), _host(spec, step, how, costs)


def narrowed(speed_up: ModelledSpeedUp, step: Modelled, parts: Parts) -> tuple[Narrowed, ...]:
    """Return every measurement that would narrow the interval enough to be worthwhile, the cheapest first."""
    middle = math.log(speed_up.ratio)
    now = (middle - math.log(speed_up.low), math.log(speed_up.high) - middle)
    down, up = _half_widths(step)
    noise = _less(now, (up, down))  # of the CPU; swapped, since a card slower than modelled lowers the speed-up
    found = []
    for measurement, model, host in _after(parts):
        shorter, longer = (math.hypot(own, other) for own, other in zip(model, host, strict=True))
        less, more = math.hypot(noise[0], longer), math.hypot(noise[1], shorter)
        resolves = middle - less > 0 or middle + more < 0
        if resolves or less + more <= (1 - LEAST_GAIN) * sum(now):
            found.append(Narrowed(measurement, math.exp(middle - less), math.exp(middle + more), resolves))
    return tuple(found)


def _after(parts: Parts) -> Iterator[tuple[Measurement, Half, Half]]:
    """Yield what each measurement leaves of the model's part and of the host's."""
    yield "host study", parts.measured_model, parts.measured_host
    left = math.sqrt(max(0.0, 1 - parts.card))
    yield "recorded sweep", (left * parts.model[0], left * parts.model[1]), parts.host


def _host(spec: GpuSpec, step: Modelled, how: Modelling, costs: HostCosts) -> Half:
    return host_part(spec, how.workload, how.target, step.batch, costs, how.conditions)


def _half_widths(step: Modelled) -> Half:
    return math.log(step.step_ms / step.low_ms), math.log(step.high_ms / step.step_ms)


def _less(whole: Half, part: Half) -> Half:
    """Return what is left of both half widths without a part that adds in quadrature."""
    down, up = (math.sqrt(max(0.0, a**2 - b**2)) for a, b in zip(whole, part, strict=True))
    return down, up
