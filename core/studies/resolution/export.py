"""Export of a resolution study as JSON and as lines of text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import counted, duration, moment, percent, table
from core.base.text import in_lines
from core.studies.resolution.answer import Resolution
from core.studies.resolution.record import ResolutionStudy
from core.workload.names import full_name

EQUAL = "The equal targets came out equal: no difference was claimed."
UNEQUAL = (
    "The equal targets came out different, which is false: what sweeps of this length claim on this machine, as it is "
    "now, is not to be trusted."
)


def sentence(study: ResolutionStudy, resolution: Resolution) -> str:
    """Return the smallest visible difference with its interval, as a sentence."""
    bounds = f"95 % interval {percent(resolution.low, 1)} to {percent(resolution.high, 1)}"
    difference = percent(resolution.difference, 1)
    return f"In {duration(study.elapsed_s)} differences from {difference} on show here ({bounds})."


def lines(resolution: Resolution) -> list[str]:
    """Return whether the equal targets came out equal, and the scatter between occasions, as sentences."""
    sentences = [EQUAL if resolution.is_equal else UNEQUAL]
    if (apart := resolution.occasions) is not None:
        bounds = f"95 % interval {percent(apart.low, 1)} to {percent(apart.high, 1)}"
        sentences.append(
            f"The target's step times on {counted(apart.count, 'occasion')} lie {percent(apart.spread, 1)} apart "
            f"(standard deviation; {bounds}): runs of different times cannot be compared better than that."
        )
    return sentences


def resolution_text(study: ResolutionStudy, resolution: Resolution) -> str:
    """Return the verdict, then each batch, then how it was measured."""
    rows = [
        (f"{each.batch:,}", each.step_ms, "" if each.difference is None else percent(each.difference, 1))
        for each in resolution.batches
    ]
    parts = [sentence(study, resolution), *lines(resolution), ""]
    parts += [*table(("batch", "step ms", "differences from"), rows), ""]
    parts.append(
        f"All figures are {study.label}: {study.plan.workload.title} on {full_name(study.plan.target)}, two workers of "
        f"it in turn; {counted(len(study.run.rounds), 'round')} in {counted(resolution.starts, 'start')}, "
        f"{study.elapsed_s:.0f} s, {study.status}, {moment(study.created_at)}"
    )
    return in_lines([*parts, *note_lines(study.warnings)])


def resolution_data(study: ResolutionStudy, resolution: Resolution) -> dict[str, Any]:
    """Return the same as data; differences are shares (0.05 is 5 %)."""
    return {
        "verdict": sentence(study, resolution),
        "label": study.label,
        "target": str(study.plan.target),
        "claims": list(resolution.claims),
        "equal": resolution.is_equal,
        "difference": resolution.difference,
        "low": resolution.low,
        "high": resolution.high,
        "batches": [asdict(each) for each in resolution.batches],
        "occasions": None if resolution.occasions is None else asdict(resolution.occasions),
        "record": study.model_dump(mode="json"),
    }
