"""The sweep that is running, seen by every session alike: progress, estimate so far, cancel, and what comes after."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.hardware.against import Against
from core.numbers import counted
from core.schema import UserError
from core.store import StoreError, Summary
from core.studies.progress import Snapshot
from core.studies.sweep.answer import Answer
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.record import Run
from core.ui import charts, registry, verdict
from core.ui.navigation import link
from core.ui.study_page import StudyPage, busy_sentence, refuse
from core.ui.words import plain

FIRST_LOOK_S, REDRAW_S = 1.0, 8.0  # until the first round is there, and from then on
STARTING = "The first estimate appears with the first round; starting the worker processes takes some seconds."
ONE_VALUE = "Each batch has one value so far; the estimate comes with the next ones, which give it an interval."
WITHOUT_INTERVAL = "without_replicates"
"""How the reason of a verdict ends that has no interval: while it is measured nothing is claimed yet."""
Beside = Callable[[Run, Answer | None], Against | None]
"""Shows the modelled GPU that is set against a run, if one is, and returns it for the charts."""
LEFT_ALONE = "left_alone"
STOPPED = {
    "interrupted": "was interrupted",
    "cancelled": "was cancelled",
    "failed": "failed before its end",
}
"""Statuses of a sweep that can go on, in words."""


def _metrics(snapshot: Snapshot) -> None:
    at = snapshot.progress
    st.metric("Cells done", f"{at.cells_done:,} of {at.cells_total:,}")
    st.metric("Rounds", f"{len(snapshot.record.rounds):,}")


PAGE = StudyPage(SWEEP, "Measure this machine", metrics=_metrics)


def redrawn(draw: Callable[..., None], *given: object) -> None:
    """Draw, and again while the sweep runs: soon after the first round is there, then more seldom than the numbers,
    since drawing takes time from what is being measured.
    """
    waiting = not _has_answer()
    st.fragment(_redrawn, run_every=FIRST_LOOK_S if waiting else REDRAW_S)(draw, waiting, given)


def _redrawn(draw: Callable[..., None], waiting: bool, given: tuple[object, ...]) -> None:
    if waiting and _has_answer():
        st.rerun()  # all of the page, which has this drawn more seldom from now on
    draw(*given)


def _has_answer() -> bool:
    snapshot = registry.engine().jobs.snapshot(SWEEP.name)
    return snapshot is not None and snapshot.answer is not None


def estimate(beside: Beside) -> None:
    """The verdict so far and the charts."""
    redrawn(_estimate, beside)


def _estimate(beside: Beside) -> None:
    snapshot = registry.engine().jobs.snapshot(SWEEP.name)
    if snapshot is None:
        return
    if snapshot.answer is None:
        st.caption(STARTING)
        return
    if snapshot.answer.verdict.reason.endswith(WITHOUT_INTERVAL):
        st.caption(ONE_VALUE)
    else:
        verdict.card(snapshot.record, snapshot.answer, heading="Estimate so far", notices_shown=0)
    card = beside(snapshot.record, snapshot.answer)
    for chart in ("speed-up", "step time"):
        charts.chart(chart, snapshot.record, snapshot.answer, place="live-", card=card)


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
    """Whether a sweep of this machine was stopped before its end; one that failed at once would fail again."""
    ended_early = summary.status in STOPPED and (summary.rounds > 0 or summary.status != "failed")
    return summary.kind == SWEEP.name and summary.label == "measured" and ended_early


def resume(run_id: str) -> None:
    """Let a sweep go on; a refusal is said on the Sweep page."""
    try:
        PAGE.start(registry.engine().store.load(run_id))
    except UserError as error:
        refuse(SWEEP, str(error))


def _leave(run_id: str) -> None:
    st.session_state[LEFT_ALONE] = run_id


def latest(beside: Beside, more: dict[str, str]) -> None:
    """The newest own run, else the shipped example: every chart has meaning before anything was measured.

    ``more``: what the link to its page holds besides the run.
    """
    run = _latest_run()
    if run is None:
        st.info("Nothing was measured yet. Press “Measure this machine”.", icon=":material/speed:")
        return
    answer = registry.answer_of(run)
    heading = "Finished example" if run.label == "recorded" else "Your newest run"
    verdict.card(run, answer, heading=heading, notices_shown=None)
    card = beside(run, answer)
    if answer is not None:
        charts.chart("speed-up", run, answer, card=card)
    verdict.show_notices(run, answer, 1)
    if answer is not None:
        charts.chart("step time", run, answer, card=card)
    label = "All charts, the cells and how it was measured"
    link("crossover", label, ":material/arrow_forward:", run=run.id, **more)


def _latest_run() -> Run | None:
    try:
        return registry.shown_by_default()
    except StoreError as error:
        st.error(plain(str(error)), icon=":material/database_off:")
        return None
