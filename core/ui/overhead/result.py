"""The Overhead page in the frame of every result: where a traced step's time goes, and by title its evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from core.rounds.answer.answer import Answer, Fit
from core.rounds.run import Run
from core.traces.record import TracedCell
from core.ui import charts, frame, registry, share
from core.ui.overhead import doing, page, trace_file, tracing

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
        run.name, parts.verdict, parts.picture, notes=parts.notes, evidence=parts.evidence(),
        share=partial(share.run_panel, run), head=head,
    )  # fmt: skip


class _Untraced:
    """A target without a trace: its fit, and the button that traces a batch."""

    def __init__(self, run: Run, target: int, answer: Answer | None) -> None:
        self._run, self._target, self._answer = run, target, answer

    def verdict(self) -> None:
        page.nothing_traced(self._run, self._target)
        if not st.context.is_embedded:
            tracing.show(self._run, self._target)

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
        found: dict[str, Callable[[], None]] = {
            f"One traced step at batch {cell.batch:,}": partial(page.timeline, run, cell),
            page.costly_title(cell): partial(page.kernels, run, cell),
            "On the host instead of the device": partial(page.host_operations, run, cell),
            FITTED: self._fitted,
            **_of_card(run, self._target),
            "Trace another batch": partial(tracing.show, run, self._target),
            "How it was traced": partial(page.how_traced, run, cell),
            trace_file.OPEN: trace_file.upload,
        }
        return found

    def _fitted(self) -> None:
        page.explanation(self._cell, self._fit)
        _Untraced.picture(self)


def _of_card(run: Run, target: int) -> dict[str, Callable[[], None]]:
    """Return the evidence on the GPU's activity and energy, if they were recorded."""
    found: dict[str, Callable[[], None]] = {}
    if doing.rows_of(run, target):
        found["What the GPU was doing"] = partial(doing.show, run, target)
    if run.energy:
        found["Energy a sample"] = partial(doing.energy, run)
    return found
