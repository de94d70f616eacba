"""Export of a diagnosis as JSON and as lines of text."""

from __future__ import annotations

from dataclasses import asdict

from core.base.evidence import note_lines
from core.base.numbers import table
from core.base.text import in_lines
from core.rounds.run import Run
from core.studies.diagnosis.answer import SHOWN, DiagnosisAnswer
from core.studies.diagnosis.record import Diagnosis


def diagnosis_data(diagnosis: Diagnosis, answer: DiagnosisAnswer) -> dict[str, object]:
    """Return a diagnosis as one object: the derived answer, and under ``record`` the raw measurements behind it.

    ``gain`` is the speed-up of the step (time per sample) by the remedy, with 95 % bounds.
    """
    return {
        "verdict": answer.sentence,
        "reason": answer.reason,
        "label": diagnosis.experiment.label,
        "target": diagnosis.target,
        "batch": diagnosis.batch,
        "findings": [asdict(finding) for finding in answer.findings],
        "readings": [asdict(reading) for reading in answer.readings],
        "warnings": [warning.model_dump() for warning in answer.warnings],
        "record": diagnosis.model_dump(mode="json"),
    }


def diagnosis_text(run: Run, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> str:
    """Return the verdict, the ranked remedies with evidence, what was not tried, and the readings."""
    rows = [
        (f.title, SHOWN.get(f.judgement, f.judgement), _times(f.gain), _times(f.low), _times(f.high))
        for f in answer.findings
        if f.gain is not None
    ]
    lines = [answer.sentence, "", *table(("remedy", "says", "gain", "95 % from", "to"), rows), ""]
    for finding in answer.findings:
        if finding.gain is not None:
            more = f" Others: {finding.others}." if finding.others else ""
            lines.append(f"{finding.title}: {finding.evidence}{more} Crossover: {finding.crossover}")
    missing = [f"{f.title}: {f.evidence}" for f in answer.findings if f.gain is None and f.evidence]
    lines += ["", "Not measured:", *(f"  {text}" for text in missing)] if missing else []
    lines += ["", *(f"{reading.title}: {reading.text}" for reading in answer.readings)]
    lines += note_lines(answer.warnings)
    starts = len({block.process for item in diagnosis.experiment.rounds for block in item.blocks})
    lines.append(
        f"Measured for {run.names[diagnosis.target]} at batch {diagnosis.batch:,}: "
        f"{len(diagnosis.experiment.rounds)} rounds of {len(diagnosis.experiment.arms)} variants in {starts} starts, "
        f"{diagnosis.experiment.elapsed_s:.0f} s, {diagnosis.experiment.status}."
    )
    return in_lines(lines)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"
