"""What a run's state means for a reader, as notices. Pure: pages only draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.analysis.answer import Answer
from core.figures.marks import failed_cells
from core.results import Run
from core.ui.words import OUTCOMES

Level = Literal["info", "warning", "error"]

REASONS = {
    "unstable_machine": "Worker processes of the same target disagree more than the targets do. Close other programs, "
    "plug a laptop in, give the sweep more time, and measure again.",
    "straddles": "At every batch the interval reaches to both sides of parity. More time makes the intervals narrower.",
    "weak_sign_change": "The lead seems to change inside the range, but the intervals still allow that it does not. "
    "More time, or more batch sizes near the change, would settle it.",
    "straddles_at_largest": "The largest batches are open. A wider range upwards, or more time, would settle it.",
    "straddles_at_smallest": "The smallest batches are open. More time would settle it.",
    "straddles_within": "Some batches in between are open. More time would settle them.",
}
RANGE_ENDED = (
    "No crossover in the measured range. It may lie outside: widen the range of batches, or conclude that one target "
    "wins here."
)
ICONS: dict[Level, str] = {"info": ":material/info:", "warning": ":material/warning:", "error": ":material/error:"}


@dataclass(frozen=True)
class Notice:
    level: Level
    text: str


def status_notice(run: Run) -> Notice | None:
    """What to know about a sweep that did not come to its planned end."""
    rounds = f"{len(run.rounds):,} {'round' if len(run.rounds) == 1 else 'rounds'}"
    if run.status == "cancelled":
        return Notice("info", f"This sweep was cancelled; what follows rests on the {rounds} measured until then.")
    if run.status == "interrupted":
        return Notice(
            "warning", f"This sweep was interrupted, most likely by a restart. Its {rounds} were kept and can be used."
        )
    if run.status == "failed":
        return Notice("error", f"This sweep failed before its end; {rounds} were kept.")
    if run.status == "running":
        return Notice("info", "This sweep is still running; what follows is the estimate so far.")
    return None


def notices(run: Run, answer: Answer | None) -> tuple[Notice, ...]:
    """Everything that qualifies a verdict, most important first; no sentence twice."""
    found = [status_notice(run)]
    if answer is None:
        found.append(Notice("warning", "No round was measured, so there is nothing to conclude."))
        found.append(_failures(run))
    else:
        verdict = answer.verdict
        if verdict.kind == "inconclusive" and verdict.reason in REASONS:
            found.append(Notice("warning", REASONS[verdict.reason]))
        if verdict.kind == "ahead":
            found.append(Notice("info", RANGE_ENDED))
        found.append(_failures(run))
        found += [Notice("warning", w.text) for w in verdict.warnings]
    found += [Notice("warning", w.text) for w in run.warnings]
    return tuple(dict.fromkeys(notice for notice in found if notice is not None))


def _failures(run: Run) -> Notice | None:
    cells = failed_cells(run)
    if not cells:
        return None
    first = cells[0]
    more = f", and {len(cells) - 1} more" if len(cells) > 1 else ""
    why = f": {first.reason}" if first.reason else "."
    return Notice(
        "warning",
        f"Not every cell has a number. {run.target_names[first.target]} at batch {first.batch:,}{more} "
        f"({OUTCOMES[first.outcome]}){why}",
    )


def progress_words(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
