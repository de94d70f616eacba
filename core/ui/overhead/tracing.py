"""Tracing one more cell of a run on request: the choice, the button, the wait, and errors."""

from __future__ import annotations

import streamlit as st

from core.rounds.run import Run
from core.studies.sweep.trace import TRACE, CellToTrace, traceable_batches, why_untraceable
from core.ui.overhead.page import JUMP
from core.ui.study_page import ask, start, why_ended
from core.ui.words import plain


def show(run: Run, target: int) -> None:
    """Draw the request for a trace of one cell of the target, and the error of this process's last one."""
    if (why := why_untraceable(run)) is not None:
        st.caption(plain(why))
        return
    batches = traceable_batches(run, target)
    if not batches:
        st.caption(f"No batch of {plain(run.names[target])} was measured, so there is none to trace.")
        return
    st.caption(
        "A worker of its own prepares the step, warms it up and runs some steady steps under TensorFlow's profiler, "
        "and the same steps without it. It takes about as long as TensorFlow takes to start. A new trace of a batch "
        "replaces the one before."
    )

    def choose() -> CellToTrace:
        return CellToTrace(run, target, st.selectbox(
            "Batch size", batches, index=len(batches) // 2, key=f"trace_batch-{run.id}-{target}", width=140,
            format_func=lambda size: f"{size:,}",
        ))  # fmt: skip

    last = ask(TRACE, "Trace this batch", ":material/troubleshoot:", choose, _start)
    if last is not None and (problem := last.error or last.unwritten):
        why_ended(last, f"{last.title}{'' if last.cancelled else ' failed'}: {problem}")


def _start(cell: CellToTrace) -> None:
    if start(TRACE, cell):
        st.session_state[JUMP] = (cell.run.id, cell.target, cell.batch)
