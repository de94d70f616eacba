"""Export of a check: its own JSON, and Bencher Metric Format."""

from __future__ import annotations

from typing import Any

from core.studies.check.answer import CheckAnswer, Compared
from core.studies.check.record import CheckRecord
from core.studies.check.words import notes, sentence

NS_A_MS = 1e6


def check_data(record: CheckRecord, answer: CheckAnswer) -> dict[str, Any]:
    """Return the check as one JSON object."""
    plan = record.plan
    return {
        "verdict": answer.verdict,
        "ratio": answer.overall.ratio,
        "low": answer.overall.low,
        "high": answer.overall.high,
        "max_slowdown": plan.max_slowdown,
        "settles_s": answer.settles_s,
        "sentence": sentence(record, answer),
        "baseline": plan.baseline,
        "target": str(plan.target),
        "network": plan.sides[-1].workload.network.name,
        "batches": [_one(compared) for compared in answer.batches],
        "notes": list(notes(record)),
        "record": record.model_dump(mode="json"),
    }


def _one(compared: Compared) -> dict[str, Any]:
    names = ("batch", "verdict", "ratio", "low", "high", "baseline_ms", "step_ms", "processes", "reason")
    return {name: getattr(compared, name) for name in names}


def bencher_data(record: CheckRecord, answer: CheckAnswer) -> dict[str, Any]:
    """Return Bencher Metric Format: ``latency`` (ns) of a step, and ``slowdown``, the ratio with its interval."""
    found: dict[str, Any] = {}
    for one in answer.batches:
        measures: dict[str, Any] = {}
        if one.step_ms is not None:
            measures["latency"] = {"value": NS_A_MS * one.step_ms}
        if one.ratio is not None:
            measures["slowdown"] = {"value": one.ratio, "lower_value": one.low, "upper_value": one.high}
        if measures:
            found[f"{step_name(record)} batch {one.batch}"] = measures
    return found


def step_name(record: CheckRecord) -> str:
    """Return the name of the measured step in other tools."""
    return f"{record.plan.sides[-1].workload.network.name} {record.plan.sides[-1].workload.mode} {record.plan.target}"
