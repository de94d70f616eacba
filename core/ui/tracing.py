"""Tracing one more cell of a run on request: what can be traced, the button, waiting, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.results import Run
from core.ui import live, registry
from core.ui.overhead import JUMP
from core.ui.verdict import plain

POLL_S = 1.0
DOING = "Tracing"
PROBLEM = "trace_problem"
BUSY = "Something else is being measured on this machine; try again when it is done."


def refusal(run: Run) -> str | None:
    """Why no cell of this run can be traced here, or None."""
    if run.plan is None:
        return "Only points were imported for this run. Without its plan no cell can be traced."
    if run.label != "measured":
        return (
            f"No cell can be traced here: this run is {run.label}, and a trace from this machine would not belong to "
            "it. Measure the same plan here first."
        )
    return None


def show(run: Run, target: int) -> None:
    """The request for a trace of one cell of the target, and how the last one of this process went."""
    st.subheader("Trace a cell", anchor=False)
    if (why := refusal(run)) is not None:
        st.caption(plain(why))
        return
    batches = sorted({r.batch for r in run.rounds if r.step_ms(target) is not None})
    if not batches:
        st.caption(f"No cell of {plain(run.target_names[target])} was measured, so there is none to trace.")
        return
    st.caption(
        "A worker of its own prepares the cell, warms it up and runs some steady steps under TensorFlow's profiler, "
        "and the same steps without it. It takes about as long as TensorFlow takes to start. A new trace of a cell "
        "replaces the one before."
    )
    task = registry.engine().jobs.task_snapshot()
    mine = task is not None and task.description.startswith(DOING)
    active = mine and task is not None and task.active
    busy = None if active else live.busy_sentence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        batch = st.selectbox(
            "Batch size", batches, index=len(batches) // 2, key=f"trace_batch-{run.id}-{target}", width=140,
            format_func=lambda size: f"{size:,}",
        )  # fmt: skip
        st.button(
            "Trace this cell", type="primary", icon=":material/troubleshoot:", key="trace", on_click=_start,
            args=(run, target, batch), disabled=active or busy is not None,
        )  # fmt: skip
    if busy:
        st.info(busy, icon=":material/hourglass_top:")
    if problem := st.session_state.pop(PROBLEM, None):
        st.warning(problem, icon=":material/hourglass_top:")
    if active:
        _wait()
    elif mine and task is not None and task.error:
        st.error(plain(f"{task.description} failed: {task.error}"), icon=":material/error:")


@st.fragment(run_every=POLL_S)
def _wait() -> None:
    task = registry.engine().jobs.task_snapshot()
    if task is None or not task.active:
        st.rerun()
        return
    st.progress(0.0, text=f"{plain(task.description)}. Nothing else is measured meanwhile.")


def _start(run: Run, target: int, batch: int) -> None:
    registry.quieten()
    description = f"{DOING} {run.target_names[target]} at batch {batch:,}"
    if registry.engine().jobs.run_task(description, _work(run, target, batch)):
        st.session_state[JUMP] = (run.id, target, batch)
    else:
        st.session_state[PROBLEM] = BUSY


def _work(run: Run, target: int, batch: int) -> Callable[[], None]:
    """What the engine's thread does; it must not ask Streamlit for anything, so the store is found before."""
    store = registry.engine().store

    def work() -> None:
        from core.measure.process import launch_processes
        from core.measure.tracing import trace_cell

        registry.keep_trace(store, run.id, trace_cell(run, target, batch, launch_processes))

    return work
