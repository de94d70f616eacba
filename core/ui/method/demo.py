"""Timing pitfalls, live: the same workload timed as articles do it, beside our figure, under the same lock."""

from __future__ import annotations

from functools import partial

import streamlit as st

from core.base.numbers import number
from core.studies.pitfalls import PITFALLS, WORKLOAD, PitfallReport
from core.ui.study_page import ask, start, why_ended
from core.ui.tables import static_table
from core.ui.words import plain

BATCHES = (1, 32, 256, 1024)


def show() -> None:
    """Show the demonstration: its purpose, one button, and the last result of this process."""
    st.markdown(
        "Many published CPU and GPU comparisons time something else than the step. Here the same workload, "
        f"{WORKLOAD} on this machine's CPU, is timed in the ways articles do it, beside our figure. It takes about "
        "half a minute, most of which is TensorFlow starting."
    )
    last = ask(PITFALLS, "Time it the wrong ways", ":material/timer:", _batch, partial(start, PITFALLS))
    if last is not None and last.error:
        why_ended(last, last.error)
    elif last is not None:
        result(last.record)


def _batch() -> int:
    return st.selectbox("Batch size", BATCHES, index=1, key="demo_batch", width=140, persist_state="session")


def result(report: PitfallReport) -> None:
    """Show every way of timing beside our figure, with its ratio and the reason."""
    st.header(f"{plain(report.workload)} at batch {report.batch:,}", anchor=False)
    with st.container(horizontal=True):
        st.metric("Our inference step (measured)", f"{number(report.infer_step_ms)} ms", border=True)
        st.metric("Our training step (measured)", f"{number(report.train_step_ms)} ms", border=True)
    rows = [
        {
            "Way of timing": figure.title,
            "ms per step (measured)": number(figure.step_ms),
            "Times our figure": f"{number(figure.ratio)}×",
            "Why": figure.explanation,
        }
        for figure in report.figures
    ]
    static_table(rows)
