"""The Crossover page: the verdict of one run, its picture, and by title all its evidence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.base.numbers import interval_words, moment
from core.base.schema import UserError
from core.hardware.compare import Against
from core.hardware.start_figure import overlay
from core.rounds.answer.answer import Answer
from core.rounds.answer.comparison import MAX_COMPARED
from core.rounds.answer.loop import loop_lines
from core.rounds.answer.repeats import Repeats, is_repeat, occasion, repeats, sentences
from core.rounds.answer.split import pairs_of, split_lines, together
from core.rounds.run import Run
from core.rounds.show.split_figure import split_figure
from core.ui import charts, evidence, frame, navigation, registry, share, verdict
from core.ui.downloads import verdict_of
from core.ui.hardware import modelled, published
from core.ui.tables import static_table
from core.ui.words import plain

QUESTION = "Which target is faster, and from which batch size on?"
MOST = 5
"""Maximum number of other runs read for a page; each takes some 20 ms."""
UNFOLDED = 1  # of the notes
IMAGE = "image"
CAMERA = "svg"


def repeats_of(run: Run) -> Repeats:
    """Return the run and the newest others of the same plan on the same machine, measured before or after it."""
    alike = [
        summary
        for summary in registry.summaries()
        if (summary.title, summary.target_names) == (run.title, run.target_names)
        and summary.label == "measured" and summary.rounds and summary.status != "running" and summary.id != run.id
    ][:MOST]  # fmt: skip
    key = "repeats", *registry.revision(run), *((other.id, other.rounds) for other in alike)
    return registry.once(key, partial(_read, run, [other.id for other in alike]))


def _read(run: Run, others: list[str]) -> Repeats:
    runs = [run]
    for other in others:
        with suppress(UserError):  # a damaged run reports it where it is opened
            if is_repeat(run, read := registry.find_run(other)):
                runs.append(read)
    return repeats([occasion(run, registry.answer_of(run)) for run in runs])


def repeats_table(measured: Repeats) -> None:
    """Show each run, newest first, and a link that compares their curves."""
    static_table(
        {
            "Measured": moment(at.run.created_at),
            "Run": at.run.name,
            "Crossover": "not one that is clear" if at.crossover is None
            else interval_words(at.crossover.batch, at.crossover.low, at.crossover.high),
        }
        for at in measured.occasions
    )  # fmt: skip
    ids = [at.run.id for at in measured.occasions][:MAX_COMPARED]
    navigation.link("history", "Compare these runs", ":material/difference:", compare=",".join(ids))


def show(run: Run) -> None:
    """Show the whole page of a run."""
    frame.show_parts(QUESTION, partial(_Parts, run, registry.answer_of(run)), st.container(), run.name)


def first_chart(run: Run) -> str:
    """Return the main chart: the speed-up for two targets, else the step time.

    That shows the fit of a single target, or which of several is the fastest where.
    """
    return "speed-up" if len(run.names) == 2 else "step time"


class _Parts:
    """The parts of the frame, for one run of the page."""

    def __init__(self, run: Run, answer: Answer | None) -> None:
        self._run, self._answer = run, answer
        self._card: Against | None = None
        self._image = str(st.session_state.get(IMAGE) or CAMERA)

    def verdict(self) -> None:
        verdict.card(self._run, self._answer, notices_shown=None, brief=True)

    def picture(self) -> None:
        """Draw the chart, with the modelled GPU chosen below it, whose own card stands above."""
        if self._answer is None:
            return
        card_place, chart_place = st.container(), st.container()
        modelled.offer(self._run)
        with card_place:
            card = modelled.shown(self._run, self._answer)
        with chart_place:
            kind = first_chart(self._run)
            charts.chart(kind, self._run, self._answer, image=self._image, card=card, border=True)
        self._card = card

    def notes(self) -> None:
        if self._answer is not None:
            verdict.numbers(self._run, self._answer)
            if self._run.label == "measured" and (agreed := sentences(repeats_of(self._run))):
                st.caption(f":material/history: {plain(' '.join(agreed))}")
        verdict.show_notices(self._run, self._answer, UNFOLDED)
        if st.context.is_embedded or self._answer is None:
            return
        with st.container(horizontal=True):
            if self._run.label == "published":
                published.to_gallery("All published curves, with the model beside them")
            else:
                plan = self._run.plan
                served = ("serving",) if plan is not None and not plan.workload.training else ()
                for page in ("diagnosis", "batch", *served, "hardware"):
                    navigation.link(page, run=self._run.id)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the evidence by title, in the order in which a reader asks."""
        run, answer = self._run, self._answer
        parts: dict[str, Callable[[], None]] = {}
        if answer is not None:
            if len(run.names) > 2:
                parts["Against the baseline"] = partial(verdict.against_baseline, run, answer)
            for kind in charts.kinds_of(run):
                if kind != first_chart(run) and (kind != "speed-up" or len(run.names) > 1):
                    parts[charts.CHARTS[kind][0]] = partial(self._chart, kind)
            if pairs_of(run):
                parts["CPU and GPU together"] = self._together
        if run.label == "measured" and len((measured := repeats_of(run)).occasions) > 1:
            parts["The same, measured before"] = partial(repeats_table, measured)
        parts["Every step time"] = partial(evidence.cells, run, answer)
        if answer is not None:
            parts["Fixed cost and cost per sample (fitted)"] = partial(evidence.fits, run, answer)
            if run.label != "published":
                parts["How it was measured"] = partial(_how_measured, run, answer)
        return parts

    def _chart(self, kind: str) -> None:
        assert self._answer is not None
        charts.chart(kind, self._run, self._answer, image=self._image, card=self._card)
        if kind == "step time":
            for line in loop_lines(self._run, self._answer):
                st.caption(plain(line))

    def _together(self) -> None:
        """Show the most that sharing a batch between CPU and accelerator could gain."""
        run, key = self._run, registry.revision(self._run)
        split = registry.once(("together", *key), partial(together, run))
        if split is None:
            st.caption("Too few batch sizes: none that was measured can be divided into two that were measured, too.")
            return
        first, *more = split_lines(run, split)
        st.markdown(plain(first))
        for line in more:
            st.caption(plain(line))
        if split.with_interval:
            make, alt = partial(split_figure, run, split), f"Both targets at once, by batch size. {first}"
            charts.show("together", make, alt, f"{run.id}-together", key, image=self._image, border=False)

    def _figure(self) -> go.Figure:
        """Return the picture as it is shown, for a file; known once the page is drawn."""
        beside = overlay(self._card) if self._card is not None else None
        return charts.CHARTS[first_chart(self._run)][1](self._run, self._answer, beside)

    def _sentence(self) -> str:
        return " ".join([verdict_of(self._run), *([self._card.crossover.sentence] if self._card is not None else [])])

    def share(self) -> None:
        share.run_panel(self._run, self._figure, self._sentence, **modelled.address())
        if self._answer is not None:
            charts.image_choice(IMAGE)


def _how_measured(run: Run, answer: Answer) -> None:
    for line in (line for part in verdict.how_it_ran(run, answer) for line in part):
        st.caption(plain(line))
    evidence.how_swept(run, answer)
