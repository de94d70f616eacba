"""A validation in words, as a table, and as the file that is stored, imported and offered for download."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import counted, duration, moment, number, percent, table
from core.base.text import in_lines
from core.studies.compiled.traced import TRACED_COLUMNS, agreement_sentence, traced_data, traced_row
from core.studies.selfcheck.checks import run_checks
from core.studies.selfcheck.export import summary
from core.studies.validation.answer import Agreement, Checked, Validation
from core.studies.validation.record import Predictions, ValidationStudy

COLUMNS = ("network", "mode", "batch", "predicted ms", "95 % from", "to", "measured ms", "over predicted", "inside")
INSIDE_WORDS = {True: "yes", False: "no", None: ""}


def inside_sentence(agreement: Agreement) -> str:
    """Describe how many steps were inside the interval, and the median error."""
    share = percent(agreement.inside / agreement.measured)
    of = f"{agreement.inside} of {counted(agreement.measured, 'measured step')}"
    return f"{of} ({share}) inside the predicted 95 % interval; median error {percent(agreement.error)}."


def factor_sentence(agreement: Agreement) -> str:
    """Describe the factor common to all steps, and say if it is not significant."""
    common = agreement.factor
    if common is None:
        return "A common factor needs steps of two networks at least."
    bounds = f"95 % interval {number(common.low)} to {number(common.high)}, over {common.networks} networks"
    shown = "" if common.low > 1 or common.high < 1 else "; no common error of the model shows"
    return f"Measured steps take {number(common.value)} times what was predicted ({bounds}){shown}."


def host_sentence(predictions: Predictions) -> str:
    """Describe when the predictions were written, and what was known of the host then."""
    return f"Predictions written {moment(predictions.written_at)}, before the first block; host: {predictions.host}."


def lines(study: ValidationStudy, answer: Validation) -> list[str]:
    """Return the sentences beside the table, the verdict first."""
    sentences = [f"{study.device_words}: {inside_sentence(answer.first)}", factor_sentence(answer.first)]
    missing = sum(step.factor is None for step in answer.steps)
    if missing:
        of = f"{missing} of {counted(len(answer.steps), 'prediction')}"
        sentences.append(f"{of} have no comparison; the table says why.")
    sentences.append(host_sentence(study.predictions))
    if answer.again is not None and study.again is not None:
        sentences.append(
            f"With the host as it was measured here (predicted {moment(study.again.written_at)}, before the first "
            f"sweep): {inside_sentence(answer.again)} {factor_sentence(answer.again)}"
        )
    if answer.traced:
        sentences.append(agreement_sentence(answer.traced))
    if study.selfcheck is not None:
        sentences.append(summary(study.selfcheck, run_checks(study.selfcheck)))
    return sentences


def row(step: Checked) -> tuple[str | float | None, ...]:
    """Return one step in the order of :data:`COLUMNS`; a step without a comparison ends with the reason."""
    predicted, measured = step.predicted, step.measured
    return (
        step.workload.network.name,
        "training" if step.workload.training else "inference",
        f"{step.batch:,}",
        predicted.step_ms,
        predicted.low_ms,
        predicted.high_ms,
        None if measured is None else measured.step_ms,
        step.factor,
        INSIDE_WORDS[step.inside] or step.reason,
    )


def validation_text(study: ValidationStudy, answer: Validation) -> str:
    """Return the verdict, then every step, then a summary of the measurement."""
    rounds = sum(len(run.rounds) for run in study.sweeps)
    traced = sum(len(run.traces) for run in study.sweeps)
    output = [*lines(study, answer), "", *table(COLUMNS, map(row, answer.steps)), ""]
    if answer.traced:
        output += [*table(TRACED_COLUMNS, map(traced_row, answer.traced)), ""]
    output.append(
        f"Predicted steps are modelled (errors of {study.predictions.errors_dated}); the others are {study.label}: "
        f"{counted(len(study.sweeps), 'sweep')}, {counted(rounds, 'round')}, {counted(traced, 'trace')} in "
        f"{duration(study.elapsed_s)}, {study.status}, {moment(study.created_at)}"
    )
    return in_lines([*output, *note_lines(study.warnings)])


def validation_data(study: ValidationStudy, answer: Validation) -> dict[str, Any]:
    """Return the validation as JSON data; times are in ms, ``over_predicted`` is measured over predicted."""
    return {
        "verdict": lines(study, answer)[0],
        "label": study.label,
        "card": study.card,
        "device_name": study.device_name,
        "written_at": study.predictions.written_at,
        "first": asdict(answer.first),
        "again": None if answer.again is None else asdict(answer.again),
        "steps": [_step_data(step) for step in answer.steps],
        "traced": [traced_data(step) for step in answer.traced],
        "record": study.model_dump(mode="json"),
    }


def _step_data(step: Checked) -> dict[str, Any]:
    measured = step.measured
    return {
        "network": step.workload.network.name,
        "mode": step.workload.mode,
        "batch": step.batch,
        "predicted": {"label": "modelled", **step.predicted.model_dump(include={"step_ms", "low_ms", "high_ms"})},
        "measured_ms": None if measured is None else measured.step_ms,
        "measured_low_ms": None if measured is None else measured.low_ms,
        "measured_high_ms": None if measured is None else measured.high_ms,
        "over_predicted": step.factor,
        "inside": step.inside,
        "reason": step.reason or None,
    }
