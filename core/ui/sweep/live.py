"""The running sweep, the same for every session: progress, estimate so far, cancel, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from core.base.numbers import counted
from core.base.schema import UserError
from core.hardware.compare import Against
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.store import StoreError, Summary
from core.studies.progress import Snapshot
from core.studies.sweep.kind import SWEEP
from core.ui import charts, news, registry, verdict
from core.ui.navigation import link
from core.ui.study_page import StudyPage, busy_sentence, refuse
from core.ui.words import plain

STARTING = "The first estimate appears with the first round; starting the worker processes takes some seconds."
NO_CLAIM = "No claim yet: that takes three starts of the workers. Hollow points have no interval."
UNDECIDED = "No answer yet: the 95 % intervals still allow either target to be faster. More starts make them narrower."
Beside = Callable[[Run, Answer | None], Against | None]
"""Shows the modelled GPU compared with a run, if any, and returns it for the charts."""
LEFT_ALONE = "left_alone"
STOPPED = {
    "interrupted": "was interrupted",
    "cancelled": "was cancelled",
    "failed": "failed before its end",
}
"""Statuses of a resumable sweep, in words."""


def _counts(snapshot: Snapshot) -> str:
    """Return how many batch sizes are measured, and plainly that there is no answer yet."""
    run = snapshot.record
    if run is None or run.plan is None:
        return ""
    seen = {measured.batch for measured in run.rounds}
    done = f"{len(seen)} of {counted(len(seen | set(run.plan.batches)), 'batch size')} measured"
    done += f", {counted(len(run.rounds), 'round')}." if seen else "."
    return done if _answers(snapshot) else f"No answer yet: {done}"


def _answers(snapshot: Snapshot) -> bool:
    """Return whether there is a conclusion; having none yet is no verdict."""
    if snapshot.answer is None or not snapshot.answer.verdict.has_interval:
        return False
    return snapshot.answer.verdict.kind != "inconclusive"


PAGE = StudyPage(SWEEP, "Measure this machine", counts=_counts)


def estimate(beside: Beside) -> None:
    """Show the charts, and the verdict so far once there is one."""
    news.redrawn("estimate", partial(_estimate, beside), changes=False)


def _estimate(beside: Beside) -> None:
    snapshot = registry.engine().jobs.snapshot(SWEEP.name)
    if snapshot is None:
        return
    if snapshot.answer is None:
        st.caption(STARTING)
        return
    first, below = st.container(), st.container()
    with below:
        if _answers(snapshot):
            verdict.card(snapshot.record, snapshot.answer, heading="Estimate so far", notices_shown=0)
        else:
            st.caption(UNDECIDED if snapshot.answer.verdict.has_interval else NO_CLAIM)
        card = beside(snapshot.record, snapshot.answer)
    chart = partial(charts.chart, run=snapshot.record, answer=snapshot.answer, place="live-", card=card)
    with first:
        chart(main_chart(snapshot.record))
    if len(snapshot.record.names) > 1:
        chart("step time")


def main_chart(run: Run) -> str:
    """Return the chart that answers the page's question; for one target there is no speed-up."""
    return "speed-up" if len(run.names) > 1 else "step time"


def stopped() -> None:
    """Offer to resume the newest own sweep if it was stopped before its end, unless another one runs."""
    if PAGE.running() is not None or registry.read_only():
        return
    registry.mark_interrupted()
    own = next((s for s in registry.summaries() if s.label == "measured"), None)
    if own is None or not can_resume(own) or st.session_state.get(LEFT_ALONE) == own.id:
        return
    with st.container(border=True):
        st.markdown(f":material/restart_alt: **A sweep {STOPPED[own.status]}**")
        st.caption(f"{plain(own.title)}. Its {counted(own.rounds, 'round')} are kept; resuming adds to them.")
        with st.container(horizontal=True):
            st.button("Resume", key="resume", type="primary", on_click=resume, args=(own.id,),
                      disabled=busy_sentence() is not None)  # fmt: skip
            st.button("Leave it as it is", key="leave", on_click=_leave, args=(own.id,))


def can_resume(summary: Summary) -> bool:
    """Return whether a sweep of this machine was stopped before its end; one that failed at once would fail again."""
    ended_early = summary.status in STOPPED and (summary.rounds > 0 or summary.status != "failed")
    return summary.kind == SWEEP.name and summary.label == "measured" and ended_early


def resume(run_id: str) -> None:
    """Resume a sweep; the Sweep page shows an error."""
    try:
        PAGE.start(registry.engine().store.load(run_id))
    except UserError as error:
        refuse(SWEEP, str(error))


def _leave(run_id: str) -> None:
    st.session_state[LEFT_ALONE] = run_id


def latest(beside: Beside, more: dict[str, str]) -> None:
    """Show the newest own run, else the shipped example, so that every chart has content before any measurement.

    ``more``: further parameters of the link to its page.
    """
    run = _latest_run()
    if run is None:
        st.info("Nothing was measured yet. Press “Measure this machine”.", icon=":material/speed:")
        return
    answer = registry.answer_of(run)
    heading = "Finished example" if run.label == "recorded" else "Your newest run"
    verdict.card(run, answer, heading=heading, notices_shown=None, brief=True)
    card = beside(run, answer)
    if answer is not None:
        charts.chart(main_chart(run) if card is None else "speed-up", run, answer, card=card)
        verdict.numbers(run, answer)
    verdict.show_notices(run, answer, 1)
    label = "All charts, and how it was measured"
    link("crossover", label, ":material/arrow_forward:", run=run.id, **more)


def _latest_run() -> Run | None:
    try:
        return registry.shown_by_default()
    except StoreError as error:
        st.error(plain(str(error)), icon=":material/database_off:")
        return None
