"""The answer on the batch to use as one JSON object: results, and the records they follow from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.rounds.run import Run
from core.studies.batch.shapes import BatchAnswer
from core.studies.noise.record import NoiseStudy
from core.userdata.source import RANDOM_LABELS


def batch_data(run: Run, answer: BatchAnswer, noise: NoiseStudy | None) -> dict[str, Any]:
    """Return the derived results, with the noise study as measured under ``record``. The run is exported separately.

    Times are in the unit of their name; noise scales and batches in samples, costs in the prices' currency. ``steps``,
    ``time_s``, ``relative_time`` and costs to a loss are predicted from measured parts. ``cost`` compares two targets;
    for more, ``costs`` compares each with the first.
    """
    data = asdict(answer)
    del data["step_verdict"]
    prices = [price.model_dump() for target in answer.targets if (price := target.price) is not None]
    for target in data["targets"]:
        for name in ("price", "index", "title"):
            target.pop(name)
    for cost in data["costs"]:
        cost.pop("prices")
    if len(run.target_names) == 2:
        costs = data.pop("costs")
        data["cost"] = costs[0] if costs else None
    data["warnings"] = [warning.model_dump() for warning in answer.warnings]
    return {
        "verdict": answer.sentences[0],
        "run_id": run.id,
        "crossover": answer.step_verdict.sentence,
        **data,
        "labels": {"steps": "predicted", "time_s": "predicted", "relative_time": "predicted"},
        "task": RANDOM_LABELS if noise is None else noise.plan.task,
        "prices": prices,
        "record": None if noise is None else noise.model_dump(mode="json"),
    }
