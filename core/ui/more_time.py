"""“Measure 60 s more” below a verdict: what more time would do, and the button that gives it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from core.evidence import same_machine
from core.numbers import duration
from core.studies.study import Study
from core.studies.sweep.answer import Answer
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.more_time import LEAST_SHARE, MoreTime, extended, more_time
from core.studies.sweep.record import Run
from core.ui import machine, registry
from core.ui.study_page import busy_sentence, start
from core.ui.words import plain

GOES_ON = "The same run goes on: what was measured stays, and the intervals come to rest on more starts of the workers."
ANEW = "The same is measured once more with a longer budget; what is here stays in the history."
MOST_S = 3600.0


def can_go_on(run: Run, answer: Answer | None) -> bool:
    """Whether more rounds can be added to this run: one of this machine, with its plan, that is not running."""
    ours = run.label == "measured" and run.plan is not None and run.status != "running" and answer is not None
    return ours and same_machine(run.environment, machine.now()) is not False


def is_of_here(study: Study) -> bool:
    """Whether a study was measured on this machine, so that it can be measured again, and is shown where one may."""
    ours = study.label == "measured" and not st.context.is_embedded
    return ours and same_machine(study.environment, machine.now()) is not False


def below(run: Run, answer: Answer | None) -> None:
    """What more time would do for the verdict of this run, with its button; nothing where it cannot go on here."""
    if answer is None or st.context.is_embedded or not can_go_on(run, answer):
        return
    found = registry.once(("more time", *registry.revision(run)), partial(more_time, run, answer))
    seconds = found.seconds or min(MOST_S, max(60.0, round(LEAST_SHARE * run.elapsed_s / 60 + 0.5) * 60.0))

    def begin() -> None:
        if start(SWEEP, extended(run, seconds, found.width)):
            st.query_params.clear()
        st.switch_page("pages/sweep.py")  # which shows its progress, or why it was refused

    offer(sentence(found, answer.verdict.has_interval), seconds, begin, urgent=found.aim != "narrower", help=GOES_ON)


def sentence(found: MoreTime, with_interval: bool) -> str:
    """What more time would do, for beside the button."""
    if found.seconds is None:
        return "The difference is too small to become clear within an hour; more time makes the intervals narrower."
    about = f"About {duration(found.seconds)} more"
    if not with_interval:
        return f"Too few rounds for an interval. {about} would give one."
    return {
        "interval": f"The workers were started too seldom to say more. {about} would make the intervals narrower.",
        "clear": f"{about} will probably make it clear.",
        "narrower": f"{about} would make the intervals narrower.",
    }[found.aim]


def offer(says: str, seconds: float, begin: Callable[[], Any], *, urgent: bool, help: str, again: bool = False) -> None:
    """The sentence and the button; ``again``: what was measured cannot go on, so all of it is measured once more."""
    if registry.read_only():
        return
    busy = busy_sentence()
    what = f"Measure again for {duration(seconds)}" if again else f"Measure {duration(seconds)} more"
    pressed = st.button(
        plain(what), icon=":material/replay:" if again else ":material/more_time:", key="measure_more",
        type="primary" if urgent else "secondary", disabled=busy is not None, help=plain(busy or help),
    )  # fmt: skip
    st.caption(plain(says), width="content")
    if pressed and busy is None:
        begin()
