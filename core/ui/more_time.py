"""The next step below a verdict in words, with the button that measures longer or again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from core.base.evidence import same_machine
from core.base.numbers import duration
from core.rounds.answer.answer import Answer
from core.rounds.answer.more_time import extended, next_step
from core.rounds.run import Run
from core.rounds.study import Study
from core.studies.kind import Kind
from core.studies.sweep.kind import SWEEP, new_run
from core.ui import machine, menu, registry
from core.ui.study_page import busy_sentence, start
from core.ui.words import plain

GOES_ON = "The same run goes on: what was measured stays, and the intervals come to rest on more starts of the workers."
ANEW = "The same is measured once more; what is here stays in the history."


def can_go_on(run: Run, answer: Answer | None) -> bool:
    """Return whether rounds can be added to this run: it is this machine's, has a plan and is not running."""
    ours = run.label == "measured" and run.plan is not None and run.status != "running" and answer is not None
    return ours and same_machine(run.environment, machine.now()) is not False


def is_of_here(study: Study) -> bool:
    """Return whether a study was measured on this machine and may be repeated; never in an embedded view."""
    ours = study.label == "measured" and not st.context.is_embedded
    return ours and same_machine(study.environment, machine.now()) is not False


def below(run: Run, answer: Answer | None) -> None:
    """Show the one next step that fits the verdict, with its button if the run can continue here."""
    if answer is None or st.context.is_embedded:
        return
    step = registry.once(("next step", *registry.revision(run)), partial(next_step, run, answer))
    if can_go_on(run, answer) and step.action == "measure_more":
        assert step.more is not None
        assert step.more.seconds is not None
        longer = partial(extended, run, step.more.seconds, step.more.width)
        offer(step.sentence, step.more.seconds, partial(_begin, longer), urgent=step.urgent, help=GOES_ON)
    elif can_go_on(run, answer) and step.action in ("close_programs", "measure_batch"):
        assert run.plan is not None
        batches = {*run.plan.batches} | ({step.batch} if step.batch is not None else set())
        plan = run.plan.model_copy(update={"batches": tuple(sorted(batches))})
        again = partial(_begin, partial(new_run, plan))
        offer(step.sentence, plan.budget_s, again, urgent=step.urgent, help=ANEW, again=True)
    elif step.sentence and step.action != "measure_more":
        st.caption(plain(step.sentence))


def _begin(make: Callable[[], Run]) -> None:
    """Start the sweep and switch to its page, which shows its progress, or why it was refused."""
    if start(SWEEP, make()):
        st.query_params.clear()
    st.switch_page("pages/sweep.py")


def offer_again(kind: Kind[Any, Any, Any], plan: Any, unclear: str, *, urgent: bool) -> None:
    """Offer a study with a longer budget, whose result replaces the one in the address; ``unclear`` names its gain."""

    def begin() -> None:
        if start(kind, plan):
            st.query_params.pop(menu.address(kind.name), None)
        st.rerun()

    clear = f"{duration(plan.budget_s)} in all will probably make {unclear} clear."
    says = clear if unclear else "More time makes it more precise."
    offer(says, plan.budget_s, begin, urgent=urgent, again=True, help=ANEW)


def offer(says: str, seconds: float, begin: Callable[[], Any], *, urgent: bool, help: str, again: bool = False) -> None:
    """Draw the sentence and the button; ``again``: the run cannot continue, so all of it is measured again."""
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
