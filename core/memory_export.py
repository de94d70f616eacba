"""A memory study as one JSON object: what it says, and what was measured. Sizes are bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.analysis.memory_answer import MemoryAnswer, MemoryPrediction
from core.memory_study import MemoryStudy


def memory_data(study: MemoryStudy, answer: MemoryAnswer) -> dict[str, Any]:
    """Under ``predicted`` what was predicted before the study, under ``record`` what was measured.

    ``curve`` is predicted too, from the study's own peaks as well; ``parts`` are those at ``parts_batch``. Limit, peaks
    and curves hold the framework's own memory, ``context_bytes``.
    """
    return {
        "verdict": answer.sentence,
        "label": study.label,
        "target": str(study.plan.target),
        "limit_bytes": study.plan.limit_bytes,
        "largest_fitted": answer.confirmed,
        "smallest_ran_out": answer.refused,
        "predicted": predicted_data(answer.prediction),
        "parts_batch": answer.parts_batch,
        "parts": asdict(answer.parts) | {"context_bytes": answer.context_bytes},
        "curve": [asdict(point) for point in answer.curve],
        "wrong_fits": asdict(answer.wrong),
        "record": study.model_dump(mode="json"),
    }


def predicted_data(prediction: MemoryPrediction) -> dict[str, Any]:
    """A prediction; ``largest`` holds the batch with the bounds of its 95 % interval."""
    return {
        "verdict": prediction.sentence,
        "label": "predicted",
        "basis": prediction.basis,
        "largest": asdict(prediction.largest),
        "curve": [asdict(point) for point in prediction.curve],
    }
