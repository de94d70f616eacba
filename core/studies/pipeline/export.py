"""Export of a pipeline study as JSON and as lines of text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import moment, table
from core.base.text import in_lines
from core.studies.experiment.record import Experiment
from core.studies.pipeline.answer import Fed, PipelineAnswer
from core.studies.pipeline.input_share import LEVELS
from core.studies.pipeline.plan import BASE, FIELDS, members
from core.workload.execution import chosen_line
from core.workload.names import full_name


def pipeline_data(experiment: Experiment, answer: PipelineAnswer) -> dict[str, Any]:
    """Return the derived answer, and under ``record`` the raw measurements behind it. Times are milliseconds.

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
        "missing": [asdict(arm) for arm in answer.missing],
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


def pipeline_text(experiment: Experiment, answer: PipelineAnswer) -> str:
    """Return the verdict, then every way of feeding, those without a number, and how it was measured."""
    columns = ("way of feeding", "step ms", "95 % from", "to", "input-bound", "rounds")
    chosen = experiment.arms[experiment.index_of(BASE) or 0]
    sentences = [part.sentence for part in (answer.prefetch, answer.starvation) if part is not None]
    starts = len({block.process for item in experiment.rounds for block in item.blocks})
    lines = [answer.sentence, *sentences, "", *table(columns, [_row(fed) for fed in answer.fed]), ""]
    lines += [f"{arm.title}: {arm.outcome.replace('_', ' ')}. {arm.reason}".rstrip() for arm in answer.missing]
    lines.append(f"As chosen: {chosen.pipeline.title}.")
    lines += chosen_line(experiment.workload, chosen.target)
    if chosen.pipeline.data is not None:
        lines.append("Your own data feed the tf.data rows; resident and host hold random arrays of the same shape.")
    lines.append(
        f"All times are {experiment.label}: {experiment.workload.title} on {full_name(chosen.target)}, "
        f"batch {chosen.batch:,}; "
        f"{len(experiment.rounds):,} rounds in {starts} starts, {experiment.elapsed_s:.0f} s, {experiment.status}, "
        f"{moment(experiment.created_at)}"
    )
    lines += note_lines(experiment.warnings)
    return in_lines(lines)


def _row(fed: Fed) -> tuple[str | float | None, ...]:
    share = "" if fed.share is None else fed.share.words
    return fed.title, fed.step_ms, fed.low_ms, fed.high_ms, share, fed.rounds
