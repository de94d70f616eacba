"""Modelled hardware as JSON: every object with a number derived from a step time carries its label.

Times are in milliseconds, intervals are 95 %. A point without a label of its own has that of the object that holds its
list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from core.hardware.catalogue import GpuSpec
from core.hardware.compare import CardReading, RooflinePoint
from core.hardware.crossing import ModelledCrossover
from core.hardware.curve import CardCurve, RecordedStep
from core.hardware.decision import Decision
from core.hardware.host import HostCosts
from core.hardware.interval import Modelled, Withheld

MODELLED = "modelled"


def curve_data(curve: CardCurve, costs: HostCosts) -> dict[str, Any]:
    """Return a curve as JSON.

    Modelled points hold batch, times, limit and rate alone, recorded ones also their own label.
    """
    basis = dict.fromkeys(point.basis for point in curve.known if isinstance(point, Modelled))
    return {
        "gpu": curve.gpu,
        "label": MODELLED,
        "points": [point_data(point) for point in curve.known],
        "withheld": [
            {"batch": point.batch, "reason": point.reason} for point in curve.points if isinstance(point, Withheld)
        ],
        "host": host_data(costs),
        "basis": list(basis),
        "corrected_by": curve.corrected_by,
    }


def point_data(point: Modelled | RecordedStep) -> dict[str, Any]:
    """Return one step as JSON, with label and basis if it was recorded."""
    data: dict[str, Any] = {
        "batch": point.batch,
        "step_ms": point.step_ms,
        "low_ms": point.low_ms,
        "high_ms": point.high_ms,
        "limited_by": point.limited_by,
        "samples_per_s": 1000 * point.batch / point.step_ms,
    }
    return data if isinstance(point, Modelled) else data | {"label": point.label, "basis": point.basis}


def host_data(costs: HostCosts) -> dict[str, Any]:
    """Return the host's costs in microseconds: ``step`` and ``op`` enter every prediction, ``fit`` only under
    ``fit``.
    """
    return {
        "label": costs.label,
        "kind": costs.kind,
        "step": asdict(costs.step),
        "op": asdict(costs.op),
        "xla_call_us": costs.host.xla_call_us,
        "source": costs.source,
        "fit": asdict(costs.fit),
    }


def crossover_data(crossover: ModelledCrossover) -> dict[str, Any]:
    """Return a crossover as JSON, with the CPU in its notation."""
    data = asdict(crossover)
    return data | {"cpu": data.pop("target")}


def reading_data(reading: CardReading, costs: HostCosts) -> dict[str, Any]:
    """Return one card of the table with its whole curve."""
    cost = reading.cost
    return {
        "gpu": reading.spec.name,
        "title": reading.spec.title,
        "label": reading.label,
        "withheld": reading.withheld or None,
        "crossover": crossover_data(reading.crossover),
        "speed_up": None if reading.speed_up is None else asdict(reading.speed_up),
        "cost": None if cost is None else asdict(cost) | {"price": cost.price.model_dump(mode="json")},
        "limits": [asdict(limited) for limited in reading.limits],
        "curve": curve_data(reading.curve, costs),
    }


def roofline_data(spec: GpuSpec, points: Sequence[RooflinePoint]) -> dict[str, Any]:
    """Return the roofline points of a card: TFLOP/s over FLOP per byte."""
    return {"gpu": spec.name, "label": MODELLED, "points": [asdict(point) for point in points]}


def comparison_data(readings: Sequence[CardReading], decision: Decision, costs: HostCosts) -> dict[str, Any]:
    """Return the whole table in its order, and the decision."""
    return {
        "label": MODELLED,
        "against": (cpu := readings[0].crossover.target),
        "batch": decision.batch,
        "decision": asdict(decision) | {"cpu": cpu},
        "cards": [reading_data(reading, costs) for reading in readings],
    }
