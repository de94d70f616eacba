"""Export of a fleet run: one JSON object that holds the record, and a table for a spreadsheet."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.rounds.answer.answer import Fastest
from core.rounds.show.export import csv_text
from core.studies.fleet.answer import FleetAnswer, Result
from core.studies.fleet.record import FleetStudy
from core.studies.fleet.text import notes

COLUMNS = (
    "machine", "state", "hardware", "batch", "target", "step_ms", "low_ms", "high_ms", "samples_per_s",
    "speed_up", "speed_up_low", "speed_up_high", "cost_per_million", "cost_low", "cost_high", "currency", "label",
)  # fmt: skip


def fleet_data(study: FleetStudy, answer: FleetAnswer) -> dict[str, Any]:
    """Return the fleet run as JSON data: times in milliseconds, 95 % intervals, machines in bands by name."""
    return {
        "verdict": "fastest",
        "sentence": answer.sentence,
        "compared": "unpaired",
        "baseline": answer.names[answer.baseline],
        "target": None if answer.target is None else str(study.plan.sweep.targets[answer.target]),
        "margin": answer.margin,
        "label": answer.label,
        "fastest": _bands(answer, answer.fastest),
        "boundaries": _boundaries(answer, answer.fastest),
        "cheapest": None if answer.cheapest is None else _bands(answer, answer.cheapest),
        "machines": [_machine(study, result) for result in answer.results],
        "notes": notes(study, answer),
        "record": study.model_dump(mode="json"),
    }


def _bands(answer: FleetAnswer, fastest: Fastest) -> list[dict[str, Any]]:
    return [
        {
            "from_batch": band.from_batch,
            "to_batch": band.to_batch,
            "machines": [answer.names[machine] for machine in band.targets],
            "tie": band.level,
        }
        for band in fastest.bands
    ]


def _boundaries(answer: FleetAnswer, fastest: Fastest) -> list[dict[str, Any]]:
    def names(machines: tuple[int, ...]) -> list[str]:
        return [answer.names[machine] for machine in machines]

    return [
        {"batch": b.batch, "low": b.low, "high": b.high, "before": names(b.before), "after": names(b.after)}
        for b in fastest.boundaries
    ]


def _machine(study: FleetStudy, result: Result) -> dict[str, Any]:
    targets = study.plan.sweep.target_names
    against = result.against
    return {
        "machine": result.name,
        "hardware": result.run.hardware,
        "state": result.machine.state,
        "run_id": result.machine.run_id,
        "label": result.run.label,
        "cells": [
            {"target": targets[cell.target]}
            | {name: getattr(cell, name) for name in ("batch", "step_ms", "low_ms", "high_ms", "samples_per_s")}
            for cell in result.cells
        ],
        "against_baseline": None
        if against is None
        else {
            "verdict": against.verdict.kind,
            "faster": against.verdict.ahead,
            "crossovers": [
                {"batch": c.batch, "low": c.low, "high": c.high, "faster_after": c.ahead_after}
                for c in against.verdict.crossovers
            ],
            "speed_ups": [asdict(speed_up) for speed_up in against.speed_ups],
        },
        "own_crossovers": [
            {
                "target": targets[pair.target],
                "faster": pair.words,
                "crossovers": [dict(zip(("batch", "low", "high"), at, strict=True)) for at in pair.crossovers],
            }
            for pair in result.run.own
        ],
        "costs": [
            {"batch": c.batch, "per_million": c.value, "low": c.low, "high": c.high} for c in result.costs
        ],
        "price": None if result.price is None else result.price.model_dump(mode="json"),
        "energy": [level.model_dump(mode="json") for level in result.energy],
    }  # fmt: skip


def machines_csv(study: FleetStudy, answer: FleetAnswer) -> str:
    """Return one row per machine and batch size."""
    targets = study.plan.sweep.target_names
    lines = []
    for result in answer.results:
        speed_ups = {} if result.against is None else {s.batch: s for s in result.against.speed_ups}
        for cell in result.cells:
            speed_up, cost = speed_ups.get(cell.batch), result.cost(cell.batch)
            lines.append((
                result.name, result.machine.state, result.run.hardware, cell.batch, targets[cell.target], cell.step_ms,
                cell.low_ms, cell.high_ms, cell.samples_per_s,
                *((None, None, None) if speed_up is None else (speed_up.ratio, speed_up.low, speed_up.high)),
                *((None, None, None) if cost is None else (cost.value, cost.low, cost.high)),
                None if result.price is None else result.price.currency, result.run.label,
            ))  # fmt: skip
    return csv_text(COLUMNS, lines)
