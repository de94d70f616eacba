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


def sentence(study: ResolutionStudy, found: Resolution) -> str:
    """Return the smallest visible difference with its interval, as a sentence."""
    bounds = f"95 % interval {percent(found.low, 1)} to {percent(found.high, 1)}"
    return f"In {duration(study.elapsed_s)} differences from {percent(found.difference, 1)} on show here ({bounds})."


def lines(found: Resolution) -> list[str]:
    """Return whether the equal targets came out equal, and the scatter between occasions, as sentences."""
    said = [EQUAL if found.is_equal else UNEQUAL]
    if (apart := found.occasions) is not None:
        bounds = f"95 % interval {percent(apart.low, 1)} to {percent(apart.high, 1)}"
        said.append(
            f"The target's step times on {counted(apart.count, 'occasion')} lie {percent(apart.spread, 1)} apart "
            f"(standard deviation; {bounds}): runs of different times cannot be compared better than that."
        )
    return said


def resolution_text(study: ResolutionStudy, found: Resolution) -> str:
    """Return the verdict, then each batch, then how it was measured."""
    rows = [
        (f"{one.batch:,}", one.step_ms, "" if one.difference is None else percent(one.difference, 1))
        for one in found.batches
    ]
    said = [sentence(study, found), *lines(found), "", *table(("batch", "step ms", "differences from"), rows), ""]
    said.append(
        f"All figures are {study.label}: {study.plan.workload.title} on {full_name(study.plan.target)}, two workers of "
        f"it in turn; {counted(len(study.run.rounds), 'round')} in {counted(found.starts, 'start')}, "
        f"{study.elapsed_s:.0f} s, {study.status}, {moment(study.created_at)}"
    )
    return in_lines([*said, *note_lines(study.warnings)])


def resolution_data(study: ResolutionStudy, found: Resolution) -> dict[str, Any]:
    """Return the same as data; differences are shares (0.05 is 5 %)."""
    return {
        "verdict": sentence(study, found),
        "label": study.label,
        "target": str(study.plan.target),
        "claims": list(found.claims),
        "equal": found.is_equal,
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "batches": [asdict(one) for one in found.batches],
        "occasions": None if found.occasions is None else asdict(found.occasions),
        "record": study.model_dump(mode="json"),
    }
