"""Notices on a run's state for the reader. Pure: pages only draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.base.evidence import Warning
from core.base.numbers import counted
from core.base.text import sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.rounds.show.figures import failed_cells
from core.ui.words import OUTCOMES

Level = Literal["info", "warning", "error"]

REASONS = {
    "unstable_machine": "Separate starts of the workers of the same target disagree more than the targets do.",
    "straddles": "At every batch the interval reaches to both sides of parity.",
    "many_changes": "A step has a fixed cost and a cost per sample, so two targets change places once or twice; more "
    "changes are believed only with two clear batch sizes on either side of each.",
    "straddles_at_largest": "The intervals of the largest batches reach to both sides of parity.",
    "straddles_at_smallest": "The intervals of the smallest batches reach to both sides of parity.",
    "straddles_within": "The intervals of some batches in between reach to both sides of parity.",
}
"""Reasons of an open verdict. The next step alone says what to do about it (:mod:`core.rounds.answer.more_time`)."""
RANGE_ENDED = "No crossover in the measured range. It may lie outside."
OF_THE_DEVICE = ("gpu_slowed", "gpu_shared", "lost_", "trace_")
"""Codes of warnings about the measured device itself, which come before those about the rest of the machine."""
MIN_STARTS = 3  # of the workers; with fewer, intervals use the process variance of other machines
ICONS: dict[Level, str] = {"info": ":material/info:", "warning": ":material/warning:", "error": ":material/error:"}


@dataclass(frozen=True)
class Notice:
    level: Level
    text: str


def stopped(status: str, what: str, kept: str) -> list[str]:
    """Return a sentence on a cancelled or interrupted study and what was ``kept``; empty for any other."""
    return [f"This {what} was {status}; {kept}."] if status in ("cancelled", "interrupted") else []


def few_starts(starts: int, more: str = "A longer budget") -> list[str]:
    """Return the effect of too few starts of the workers on intervals, and the remedy."""
    if not 0 < starts < MIN_STARTS:
        return []
    return [
        f"The workers were started {'once' if starts == 1 else 'twice'} only, so intervals allow for how much "
        f"processes differ elsewhere. {more} makes them narrower."
    ]


def status_notice(run: Run) -> Notice | None:
    """Return a notice on a sweep that did not finish as planned."""
    rounds = counted(len(run.rounds), "round")
    by_status: dict[str, tuple[Level, str]] = {
        "cancelled": ("info", f"was cancelled; what follows rests on the {rounds} measured until then."),
        "interrupted": (
            "warning",
            f"was interrupted, most likely by a restart. Its {rounds} were kept and can be used.",
        ),
        "failed": ("error", f"failed before its end; {rounds} were kept."),
        "running": ("info", "is still running; what follows is the estimate so far."),
    }  # fmt: skip
    if run.status not in by_status:
        return None
    level, text = by_status[run.status]
    return Notice(level, f"This sweep {text}")


def notices(run: Run, answer: Answer | None) -> tuple[Notice, ...]:
    """Return everything that qualifies a verdict, most important first; no sentence twice."""
    qualifiers = [status_notice(run)]
    if answer is None:
        qualifiers.append(Notice("warning", "No round was measured, so there is nothing to conclude."))
        qualifiers.append(_failures(run))
    else:
        verdict = answer.verdict
        if verdict.kind == "inconclusive" and verdict.reason in REASONS:
            qualifiers.append(Notice("warning", REASONS[verdict.reason]))
        if verdict.kind == "ahead":
            qualifiers.append(Notice("info", RANGE_ENDED))
        qualifiers.append(_failures(run))
    warnings = [*(answer.verdict.warnings if answer is not None else ()), *run.warnings]
    qualifiers += [Notice("warning", w.text) for w in sorted(warnings, key=_rank)]
    return tuple(dict.fromkeys(notice for notice in qualifiers if notice is not None))


def _rank(warning: Warning) -> int:
    kinds = (index for index, code in enumerate(OF_THE_DEVICE) if warning.code.startswith(code))
    return next(kinds, len(OF_THE_DEVICE))


def _failures(run: Run) -> Notice | None:
    cells = failed_cells(run)
    if not cells:
        return None
    first = cells[0]
    more = f", and {len(cells) - 1} more" if len(cells) > 1 else ""
    why = f": {first.reason}" if first.reason else "."
    return Notice(
        "warning",
        f"Not every batch was measured on every target. {sentence_case(run.names[first.target])} at batch "
        f"{first.batch:,}{more} ({OUTCOMES[first.outcome]}){why}",
    )
