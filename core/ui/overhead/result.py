"""The Overhead page in the frame of every result: where a traced step's time goes, and by title its evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from core.rounds.answer.answer import Answer, Fit
from core.rounds.run import Run
from core.studies.sweep.trace import TRACE, CellToTrace, traceable_batches, why_untraceable
from core.traces.record import TracedCell
from core.ui import charts, frame, registry, share
from core.ui.overhead import gpu_activity, page, trace_file
from core.ui.overhead.page import JUMP
from core.ui.study_page import ask, start, why_ended
from core.ui.words import plain

QUESTION = "Where does the time of a step go?"
FITTED = "Fixed-cost share (fitted), and how it differs from the trace"


def show(run: Run) -> None:
    """Show the whole page of a run."""
    answer, head = registry.answer_of(run), st.container()
    if not st.context.is_embedded:
        page.untraced(run)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = page.target_of(run)
        cell = page.cell_of(run, target, answer)
    parts = _Traced(run, target, cell, answer) if cell is not None else _Untraced(run, target, answer)
    frame.show(
        QUESTION, parts.verdict, parts.picture, notes=parts.notes, evidence=parts.evidence(),
        share=partial(share.run_panel, run), head=head, subject=run.name,
    )  # fmt: skip


class _Untraced:
    """A target without a trace: its fit, and the button that traces a batch."""

    def __init__(self, run: Run, target: int, answer: Answer | None) -> None:
        self._run, self._target, self._answer = run, target, answer

    def verdict(self) -> None:
        page.nothing_traced(self._run, self._target)
        if not st.context.is_embedded:
            _trace(self._run, self._target)

    def picture(self) -> None:
        if self._answer is not None and any(self._answer.fits):
            charts.chart("overhead", self._run, self._answer, border=True)

    def notes(self) -> None:
        """Draw nothing."""

    def evidence(self) -> dict[str, Callable[[], None]]:
        return {**_of_card(self._run, self._target), trace_file.OPEN: trace_file.upload}


class _Traced(_Untraced):
    """A target with the traced cell that is shown."""

    def __init__(self, run: Run, target: int, cell: TracedCell, answer: Answer | None) -> None:
        super().__init__(run, target, answer)
        self._cell = cell

    @property
    def _fit(self) -> Fit | None:
        return self._answer.fits[self._target] if self._answer is not None else None

    def verdict(self) -> None:
        page.card(self._run, self._cell)

    def picture(self) -> None:
        page.shares(self._run, self._target)

    def notes(self) -> None:
        page.notes(self._cell)

    def evidence(self) -> dict[str, Callable[[], None]]:
        run, cell = self._run, self._cell
        return {
            f"One traced step at batch {cell.batch:,}": partial(page.timeline, run, cell),
            page.costly_title(cell): partial(page.kernels, run, cell),
            "On the host instead of the device": partial(page.host_operations, run, cell),
            FITTED: self._fitted,
            **_of_card(run, self._target),
            "Trace another batch": partial(_trace, run, self._target),
            "How it was traced": partial(page.how_traced, run, cell),
            trace_file.OPEN: trace_file.upload,
        }

    def _fitted(self) -> None:
        page.explanation(self._cell, self._fit)
        _Untraced.picture(self)


def _trace(run: Run, target: int) -> None:
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


def _of_card(run: Run, target: int) -> dict[str, Callable[[], None]]:
    """Return the evidence on the GPU's activity and energy, if they were recorded."""
    parts: dict[str, Callable[[], None]] = {}
    if gpu_activity.rows_of(run, target):
        parts["What the GPU was doing"] = partial(gpu_activity.show, run, target)
    if run.energy:
        parts["Energy per sample"] = partial(gpu_activity.energy, run)
    return parts
