"""Export of a scaling study as JSON and as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from core.evidence import note_lines
from core.numbers import bounded, moment, table
from core.studies.scaling.answer import Efficiency, ScalingAnswer, Several
from core.studies.scaling.words import efficiency_words, headline, notes, reasons, remedies, share
from core.studies.sweep.export import all_warnings, placement_lines
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.verdict_export import fastest_fields, verdict_fields
from core.text import in_lines

COLUMNS = ("devices", "batch", "a replica", "speed-up", "strong efficiency", "weak efficiency", "smaller batch leaves")


def scaling_data(answer: ScalingAnswer) -> dict[str, Any]:
    """Return the derived answer, and under ``record`` the raw measurements behind it.

    Efficiencies and shares are from 0 to 1, batch sizes global. ``verdict`` has the form of a sweep's.
    """
    study = answer.study
    several = answer.answer.fastest is not None
    return {
        "headline": headline(answer),
        "label": study.label,
        "verdict": fastest_fields(answer.run, answer.answer) if several else verdict_fields(answer.verdict),
        "tried_out": study.plan.is_tried_out,
        "efficiency": efficiency_words(answer),
        "reasons": reasons(answer),
        "remedies": [asdict(remedy) for remedy in remedies(answer)],
        "several": [_several(one) for one in answer.several],
        "record": study.model_dump(mode="json"),
    }


def _several(one: Several) -> dict[str, Any]:
    return asdict(one) | {"verdict": verdict_fields(one.verdict)}


def scaling_text(answer: ScalingAnswer) -> str:
    """Return the verdict, then the reasons, the remedies, the table and the notes."""
    study = answer.study
    lines = [headline(answer), *efficiency_words(answer), *reasons(answer)]
    lines += [remedy.sentence for remedy in remedies(answer)]
    lines += ["", *table(COLUMNS, rows(answer)), "", *notes(answer)]
    lines.append(
        f"All times are {study.label}: {study.title}, {study.plan.pipeline.title}; {len(study.rounds):,} rounds in "
        f"{study.starts} starts, {study.elapsed_s:.0f} s, {study.status}, {moment(study.created_at)}"
    )
    lines += [*ran_line(answer.run), *placement_lines(answer.run)]
    lines += note_lines(all_warnings(answer.run, answer.answer))
    return in_lines(lines)


def rows(answer: ScalingAnswer) -> list[tuple[str, int, int, str, str, str, str]]:
    """Return one row per number of devices and global batch, sorted by both."""
    return [_row(one, batch) for one in answer.several for batch in _batches(one)]


def _row(one: Several, batch: int) -> tuple[str, int, int, str, str, str, str]:
    ratio = one.speed_up(batch)
    kinds = (one.strong, one.weak, one.replica)
    strong, weak, replica = ("" if (at := at_batch(kind, batch)) is None else share(at) for kind in kinds)
    speed_up = "" if ratio is None else f"{bounded(ratio.ratio, ratio.low, ratio.high)}×"
    return one.name, batch, batch // one.replicas, speed_up, strong, weak, replica


def at_batch(kind: Iterable[Efficiency], batch: int) -> Efficiency | None:
    return next((one for one in kind if one.batch == batch), None)


def _batches(one: Several) -> list[int]:
    return sorted({efficiency.batch for kind in (one.strong, one.weak) for efficiency in kind})
