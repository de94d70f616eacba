"""Tracing one more cell of a run on request: the choice, the button, the wait, and errors."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from core.rounds.run import Run
from core.studies.kind import Task
from core.studies.runner import StudyTools
from core.studies.sweep.workers import trace_cell
from core.ui import registry
from core.ui.overhead.page import JUMP
from core.ui.study_page import ask, start, why_ended
from core.ui.words import plain


def refusal(run: Run) -> str | None:
    """Return why no cell of this run can be traced here, or None."""
    if run.plan is None:
        return "Only points were imported for this run. Without its plan nothing can be traced."
    if run.label != "measured":
        return (
            f"Nothing can be traced here: this run is {run.label}, and a trace from this machine would not belong to "
            "it. Measure the same plan here first."
        )
    return None


def show(run: Run, target: int) -> None:
    """Draw the request for a trace of one cell of the target, and the error of this process's last one."""
    if (why := refusal(run)) is not None:
        st.caption(plain(why))
        return
    batches = sorted({r.batch for r in run.rounds if r.step_ms(target) is not None})
    if not batches:
        st.caption(f"No batch of {plain(run.names[target])} was measured, so there is none to trace.")
        return
    st.caption(
        "A worker of its own prepares the step, warms it up and runs some steady steps under TensorFlow's profiler, "
        "and the same steps without it. It takes about as long as TensorFlow takes to start. A new trace of a batch "
        "replaces the one before."
    )

    def choose() -> Asked:
        return Asked(run, target, st.selectbox(
            "Batch size", batches, index=len(batches) // 2, key=f"trace_batch-{run.id}-{target}", width=140,
            format_func=lambda size: f"{size:,}",
        ))  # fmt: skip

    last = ask(TRACE, "Trace this batch", ":material/troubleshoot:", choose, _start)
    if last is not None and (problem := last.error or last.unwritten):
        why_ended(last, f"{last.title}{'' if last.cancelled else ' failed'}: {problem}")


@dataclass(frozen=True)
class Asked:
    """The cell of a run to trace."""

    run: Run
    target: int
    batch: int


def _start(asked: Asked) -> None:
    if start(TRACE, asked):
        st.session_state[JUMP] = (asked.run.id, asked.target, asked.batch)


def _measure(tools: StudyTools, asked: Asked) -> None:
    """Trace in the engine's thread, where Streamlit may be asked only to clear the cache of changed runs."""
    cell = trace_cell(tools, asked.run, asked.target, asked.batch)
    tools.recorder.record(asked.run.id, (cell,))
    registry.forget_runs()


TRACE = Task(
    name="trace",
    describe=lambda asked: f"Trace of {asked.run.names[asked.target]} at batch {asked.batch:,}",
    run=_measure,
    targets=lambda asked: (asked.run.plan.targets[asked.target],) if asked.run.plan is not None else (),
)
