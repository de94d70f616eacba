"""A pipeline study as one JSON object: what it says, and what was measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.analysis.input_share import LEVELS
from core.analysis.pipeline import Fed, PipelineAnswer
from core.experiment import Experiment
from core.pipeline_study import BASE, FIELDS, members


def pipeline_data(experiment: Experiment, answer: PipelineAnswer) -> dict[str, Any]:
    """What it says, derived, and under ``record`` what was measured, from which it follows. Times are milliseconds.

    ``families`` name the arms that differ in one field, by rising value. Shares are of a step, from 0 to 1.
    """
    arms = experiment.arms
    return {
        "verdict": answer.sentence,
        "label": experiment.label,
        "target": str(arms[0].target),
        "batch": arms[0].batch,
        "chosen": arms[experiment.index_of(BASE) or 0].pipeline.title,
        "arms": [_arm(fed) for fed in answer.fed],
        "missing": [asdict(one) for one in answer.missing],
        "families": {family: [arms[i].code for i in members(arms, family)] for family in FIELDS},
        "prefetch": asdict(answer.prefetch) if answer.prefetch else None,
        "starvation": asdict(answer.starvation) if answer.starvation else None,
        "record": experiment.model_dump(mode="json"),
    }


def _arm(fed: Fed) -> dict[str, Any]:
    share = None
    if fed.share is not None:
        value, low, high = fed.share.shown
        share = {"value": value, "low": low, "high": high, "level": LEVELS[fed.share.level]}
    return asdict(fed) | {"share": share}
