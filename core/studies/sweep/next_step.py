"""Recommended next step for a verdict: close other programs, measure longer, or try another batch size. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.numbers import duration
from core.studies.sweep.answer import Answer
from core.studies.sweep.more_time import MoreTime, more_time
from core.studies.sweep.record import Run

Action = Literal["close_programs", "measure_more", "measure_batch", "none"]
CLOSE = "Close other programs, then measure again."
TOO_SMALL = "The difference is too small to become clear within an hour."
AT_AN_END = ("straddles_at_largest", "straddles_at_smallest")


@dataclass(frozen=True)
class NextStep:
    """Recommended next step.

    ``sentence`` is empty if nothing is left to do; ``more`` is set for ``measure_more``, ``batch`` for
    ``measure_batch``. ``urgent``: without this step there is no answer.
    """

    action: Action = "none"
    sentence: str = ""
    more: MoreTime | None = None
    batch: int | None = None
    urgent: bool = False


NOTHING = NextStep()


def next_step(run: Run, answer: Answer) -> NextStep:
    """Return the next step for this verdict; nothing for a run still in progress or a published one.

    A busy or unsteady machine comes first: more time on it gives more of the same.
    """
    verdict = answer.verdict
    if run.status == "running" or run.label == "published":
        return NOTHING
    is_open = not answer.claims
    if not verdict.machine.quiet or verdict.machine.unstable:
        return NextStep("close_programs", CLOSE, urgent=is_open)
    more = more_time(run, answer) if run.plan is not None else None
    if more is not None and more.aim != "narrower" and more.seconds is not None:
        return NextStep("measure_more", _more_words(more, verdict.has_interval), more, urgent=True)
    if verdict.next_batch is not None and (verdict.kind == "ahead" or verdict.reason in AT_AN_END):
        text = f"Next batch size worth measuring: {verdict.next_batch:,}."
        return NextStep("measure_batch", text, batch=verdict.next_batch)
    if more is None or verdict.kind == "ahead":
        return NOTHING
    if more.seconds is None:
        return NextStep(sentence=TOO_SMALL) if more.aim == "clear" else NOTHING
    return NextStep("measure_more", _more_words(more, verdict.has_interval), more)


def _more_words(more: MoreTime, has_interval: bool) -> str:
    about = f"About {duration(more.seconds)} more"
    if not has_interval:
        return f"Too few starts for an interval. {about} would give one."
    return {
        "interval": f"Too few starts of the workers to say more. {about} would make the intervals narrower.",
        "clear": f"{about} will probably make it clear.",
        "narrower": f"{about} would make the intervals narrower.",
    }[more.aim]
