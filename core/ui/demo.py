"""Timing pitfalls, live: the same workload timed as articles do it, beside our figure, under the same lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.families import network_from_name
from core.figures.style import number
from core.measure.pitfalls import PitfallReport, run_pitfalls
from core.spec import Workload
from core.ui import live, registry

if TYPE_CHECKING:
    from core.measure.jobs import TaskSnapshot

WORKLOAD, DEADLINE_S, POLL_S = "784-128-10", 240.0, 1.0
BATCHES = (1, 32, 256, 1024)
PROBLEM, DESCRIPTION = "demo_problem", "Timing"


def show() -> None:
    """The demonstration: why it is here, one button, and the last result of this process."""
    st.markdown(
        "Many published CPU and GPU comparisons time something else than the step. Here the same workload, "
        f"{WORKLOAD} on this machine's CPU, is timed in the ways articles do it, beside our figure. It takes about "
        "half a minute, most of which is TensorFlow starting."
    )
    task = _task()
    active = task is not None and task.active
    busy = None if active else live.busy_sentence()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        batch = st.selectbox("Batch size", BATCHES, index=1, key="demo_batch", width=140, persist_state="session")
        st.button(
            "Time it the wrong ways", type="primary", icon=":material/timer:", key="demo", on_click=_start,
            args=(batch,), disabled=active or busy is not None,
        )  # fmt: skip
    if busy:
        st.info(busy, icon=":material/hourglass_top:")
    if problem := st.session_state.pop(PROBLEM, None):
        st.warning(problem, icon=":material/hourglass_top:")
    if active:
        _wait()
    elif task is not None and task.error:
        st.error(task.error, icon=":material/error:")
    elif task is not None and task.result is not None:
        result(task.result)


def _task() -> TaskSnapshot | None:
    """The demonstration that runs or ran last; other short measurements are not this page's."""
    task = registry.engine().jobs.task_snapshot()
    return task if task is not None and task.description.startswith(DESCRIPTION) else None


@st.fragment(run_every=POLL_S)
def _wait() -> None:
    task = _task()
    if task is None or not task.active:
        st.rerun()
        return
    st.progress(0.0, text=f"{task.description}. Nothing else is measured meanwhile.")


def _start(batch: int) -> None:
    workload = Workload(network=network_from_name(WORKLOAD))
    started = registry.engine().jobs.run_task(
        f"{DESCRIPTION} {WORKLOAD} at batch {batch} in several ways", lambda: run_pitfalls(workload, batch, DEADLINE_S)
    )
    if not started:
        st.session_state[PROBLEM] = "Something else is being measured on this machine; try again when it is done."


def result(report: PitfallReport) -> None:
    """Every way beside our figure, with how far off it is and why."""
    st.subheader(f"{report.workload} at batch {report.batch:,}", anchor=False)
    with st.container(horizontal=True):
        st.metric("Our inference step (measured)", f"{number(report.infer_step_ms)} ms", border=True)
        st.metric("Our training step (measured)", f"{number(report.train_step_ms)} ms", border=True)
    rows = [
        {
            "Way of timing": figure.title,
            "ms a step (measured)": number(figure.step_ms),
            "Times our figure": f"{number(figure.ratio)}×",
            "Why": figure.explanation,
        }
        for figure in report.figures
    ]
    st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)
