"""Export of a memory study as JSON and as lines of text. Sizes in JSON are bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import byte_size, moment, table
from core.base.text import in_lines
from core.studies.memory.answer import MemoryAnswer, MemoryPrediction, steady_words
from core.studies.memory.record import MemoryStudy, Probe
from core.workload.execution import chosen_line


def memory_data(study: MemoryStudy, answer: MemoryAnswer) -> dict[str, Any]:
    """Return the answer; ``predicted`` holds the prediction before the study, ``record`` the raw measurements.

    ``curve`` is predicted, too, using also the study's own peaks; ``parts`` are those at ``parts_batch``. Limit, peaks
    and curves include the framework's own memory, ``context_bytes``.
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
    """Return a prediction; ``largest`` holds the batch with the bounds of its 95 % interval."""
    return {
        "verdict": prediction.sentence,
        "label": "predicted",
        "basis": prediction.basis,
        "largest": asdict(prediction.largest),
        "curve": [asdict(point) for point in prediction.curve],
    }


def memory_text(study: MemoryStudy, answer: MemoryAnswer) -> str:
    """Return the verdict, then the probes, the parts, and how it was measured."""
    plan = study.plan
    columns = ("batch", "peak", "predicted before", "95 % from", "to", "outcome")
    named = {**answer.parts.named, "framework": answer.context_bytes}
    lines = [answer.sentence, answer.prediction.sentence, answer.wrong.sentence, ""]
    lines += [*table(columns, [_row(probe) for probe in study.probes]), ""]
    listed = ", ".join(f"{name} {byte_size(value)}" for name, value in named.items())
    lines.append(f"Predicted parts at batch {answer.parts_batch:,}: {listed}.")
    lines += chosen_line(plan.workload, plan.target)
    whose = "TensorFlow's allocator" if plan.target.is_gpu else "a whole worker process, TensorFlow included"
    lines.append(
        f"Peaks are {study.label}, of {whose}: {plan.title}, {len(study.probes)} batches in {study.elapsed_s:.0f} s, "
        f"{study.status}, {moment(study.created_at)}"
    )
    lines += filter(None, [steady_words(study)])
    lines += note_lines(study.warnings)
    lines += [f"Batch {probe.batch:,}: {probe.reason}" for probe in study.probes if probe.reason]
    return in_lines(lines)


def _row(probe: Probe) -> tuple[str | float | None, ...]:
    predicted = (probe.predicted_bytes, probe.predicted_low_bytes, probe.predicted_high_bytes)
    peak = "" if probe.peak_bytes is None else byte_size(probe.peak_bytes)
    return probe.batch, peak, *map(byte_size, predicted), probe.outcome.replace("_", " ")
