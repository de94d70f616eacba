"""The sweep that is running, seen by every session alike: progress, estimate so far, cancel, and what comes after."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.analysis.answer import Answer
from core.hardware.against import Against
from core.measure.lock import Busy
from core.measure.progress import Snapshot
from core.results import Run
from core.store import StoreError
from core.ui import charts, registry, verdict
from core.ui.states import progress_words

# Seldom, since browser and server take their time from what is being measured (benchmarks/polling.py).
POLL_S, WATCH_S, REDRAW_S = 2.0, 3.0, 8.0
Beside = Callable[[Run, Answer | None], Against | None]
"""Shows the modelled GPU that is set against a run, if one is, and returns it for the charts."""
LEFT_ALONE = "left_alone"
RESUME_PROBLEM = "resume_problem"


def active() -> Snapshot | None:
    """The sweep running in this process, or None."""
    snapshot = registry.engine().jobs.snapshot()
    return snapshot if snapshot is not None and snapshot.active else None


def busy_sentence() -> str | None:
    """Why nothing can be started now, or None."""
    if active() is not None:
        return "A sweep is running on this machine. Only one runs at a time, so that none disturbs another."
    task = registry.engine().jobs.task_snapshot()
    if task is not None and task.active:
        return f"{task.description} is under way; that takes less than a minute."
    study = registry.engine().jobs.study_snapshot()
    if study is not None and study.active:
        return f"{study.description} is under way. Only one measurement runs at a time, so that none disturbs another."
    return registry.engine().jobs.busy_elsewhere()


@st.fragment(run_every=POLL_S)
def progress() -> None:
    """The running sweep in numbers; when it has ended the page runs once more, without this timer."""
    snapshot = active()
    if snapshot is None:
        st.rerun()
        return
    at = snapshot.progress
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown("**Measuring this machine**", width="content")
            st.button("Cancel", icon=":material/stop_circle:", key="cancel", on_click=_cancel,
                      help="Stops soon. What was measured until then is kept.")  # fmt: skip
        share = min(1.0, at.cells_done / at.cells_total) if at.cells_total else 0.0
        used = min(1.0, at.elapsed_s / max(at.elapsed_s + at.remaining_s, 1e-9))
        st.progress(max(share, used), text=at.activity)
        with st.container(horizontal=True):
            st.metric("Cells done", f"{at.cells_done} of {at.cells_total}")
            st.metric("Time left, at most", progress_words(at.remaining_s))
            st.metric("Elapsed", progress_words(at.elapsed_s))
            st.metric("Rounds", f"{len(snapshot.run.rounds):,}")


@st.fragment(run_every=REDRAW_S)
def estimate(beside: Beside) -> None:
    """The verdict so far and the charts. Slower than the numbers: drawing takes time from what is being measured."""
    snapshot = registry.engine().jobs.snapshot()
    if snapshot is None:
        return
    if snapshot.answer is None:
        st.caption("The first estimate appears with the first round; starting TensorFlow takes some seconds.")
        return
    verdict.card(snapshot.run, snapshot.answer, heading="Estimate so far", notices_shown=0)
    card = beside(snapshot.run, snapshot.answer)
    charts.chart("speed-up", snapshot.run, snapshot.answer, place="live-", card=card)
    charts.chart("step time", snapshot.run, snapshot.answer, place="live-", card=card)


def _cancel() -> None:
    registry.engine().jobs.cancel()


@st.fragment(run_every=WATCH_S)
def watch() -> None:
    """While idle: notice a sweep that another tab has started."""
    if active() is not None:
        st.rerun()


def ended() -> None:
    """What the last sweep of this process left to say when it ended without a usable answer."""
    snapshot = registry.engine().jobs.snapshot()
    if snapshot is None or snapshot.active:
        return
    if snapshot.error:
        st.error(snapshot.error, icon=":material/error:")
    elif not snapshot.run.rounds:
        st.info("The last sweep ended before its first round; nothing was kept.", icon=":material/info:")


def interrupted() -> None:
    """Offer to resume the newest own sweep if a restart interrupted it, unless another one runs."""
    if active() is not None:
        return
    own = next((s for s in registry.summaries() if s.label == "measured"), None)
    if own is None or own.status != "interrupted" or st.session_state.get(LEFT_ALONE) == own.id:
        return
    with st.container(border=True):
        st.markdown(":material/restart_alt: **A sweep was interrupted**")
        st.caption(f"{verdict.plain(own.title)}. Its {own.rounds:,} rounds are kept; resuming adds to them.")
        with st.container(horizontal=True):
            st.button("Resume", key="resume", type="primary", on_click=_resume, args=(own.id,),
                      disabled=busy_sentence() is not None)  # fmt: skip
            st.button("Leave it as it is", key="leave", on_click=_leave, args=(own.id,))
        if problem := st.session_state.pop(RESUME_PROBLEM, None):
            st.error(problem, icon=":material/error:")


def _resume(run_id: str) -> None:
    registry.quieten()
    try:
        registry.engine().jobs.resume(run_id)
    except (Busy, StoreError, ValueError, OSError) as error:
        st.session_state[RESUME_PROBLEM] = str(error)


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
    st.page_link("pages/crossover.py", label="All charts, the cells and how it was measured",
                 icon=":material/arrow_forward:", query_params={"run": run.id, **more})  # fmt: skip


def _latest_run() -> Run | None:
    try:
        return registry.shown_by_default()
    except StoreError as error:
        st.error(str(error), icon=":material/database_off:")
        return None
