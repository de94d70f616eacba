"""Export of a gradient noise study as JSON and as lines of text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.numbers import moment, number
from core.base.text import in_lines
from core.studies.noise.answer import TrainingNoise
from core.studies.noise.record import NoiseStudy


def noise_data(study: NoiseStudy, noise: TrainingNoise) -> dict[str, Any]:
    """Return the derived answer, and under ``record`` the raw measurements."""
    return {"verdict": noise_sentence(noise), "noise": asdict(noise), "record": study.model_dump(mode="json")}


def noise_sentence(noise: TrainingNoise) -> str:
    """Describe the noise scale and its meaning for batches."""
    if noise.value is None or noise.high is None:
        return (
            f"The gradient noise scale is at least {noise.low:,.0f} samples; it has no upper bound yet, since the "
            "gradient itself cannot be distinguished from noise. More time makes it narrower."
        )
    reached = (
        f"a loss of {number(noise.target_loss)} took {noise.steps:,.0f} steps at batch {noise.reference_batch:,}"
        if noise.steps is not None
        else f"the loss of {number(noise.target_loss)} was not reached, so only relative times are given"
    )
    return (
        f"The gradient noise scale is {noise.value:,.0f} samples (95 %: {noise.low:,.0f} to {noise.high:,.0f}), "
        f"{noise.label}: well below it a doubled batch halves the steps, well above it saves none; "
        f"{reached}."
    )


def noise_text(study: NoiseStudy, noise: TrainingNoise) -> str:
    """Return the noise scale, then how it was measured."""
    return in_lines([noise_sentence(noise), measured_sentence(study)])


def measured_sentence(study: NoiseStudy) -> str:
    return (
        f"Gradients and steps are {study.label}: {study.title}, learning rate {study.plan.rate:g}, "
        f"{study.steps:,} steps, {study.elapsed_s:.0f} s, {study.status}, {moment(study.created_at)}."
    )
