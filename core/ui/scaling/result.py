"""A scaling study on a page: the verdict, charts, reasons and remedies, tables, the file and its address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from core.base.numbers import duration
from core.base.text import sentence_case
from core.figures.style import environment_line
from core.rounds.show.export import all_warnings, placement_lines
from core.studies.scaling.answer import ScalingAnswer, scaling_answer
from core.studies.scaling.export import (
    COLUMNS,
    efficiency_words,
    headline,
    notes,
    reasons,
    remedies,
    rows,
    scaling_data,
    scaling_text,
)
from core.studies.scaling.figures import efficiency_figure, speed_figure
from core.studies.scaling.record import TRY_OUT, ScalingStudy
from core.ui import charts, evidence, frame, share
from core.ui.card import Badge, draw_notes, label_badge, result_card
from core.ui.downloads import study_files
from core.ui.notices import Notice, few_starts, stopped
from core.ui.words import plain

UNFOLDED = 1  # of the notes
SPEED, EFFICIENCY = "Throughput by batch size", "Efficiency by batch size"


def heading(study: ScalingStudy) -> str:
    """Return a question that every answer fits."""
    return frame.which_is_faster("From which batch", study.plan.names)


class Parts:
    """The parts of a result's frame, for one study. Raises UserError if it supports no answer."""

    def __init__(self, study_id: str, study: ScalingStudy) -> None:
        self._id, self._study = study_id, study
        self._answer = scaling_answer(study)

    def verdict(self) -> None:
        study = self._study
        tried = [Badge("no speed of several devices", ":material/science:", "orange", f"{TRY_OUT}.")]
        badges = [label_badge(study.label), *(tried if study.plan.is_tried_out else [])]
        about = f"{study.plan.workload.title}, {study.plan.pipeline.title} · {environment_line(study)}"
        result_card("Scaling", badges, headline(self._answer), (about,), status=study.status,
                    more=efficiency_words(self._answer))  # fmt: skip

    def picture(self) -> None:
        self._chart(SPEED, speed_figure)

    def notes(self) -> None:
        """Show reasons, remedies, and what qualifies the verdict."""
        _listed("Why", reasons(self._answer))
        _listed("What helps", [remedy.sentence for remedy in remedies(self._answer)])
        draw_notes(tuple(Notice("info", text) for text in notices(self._answer)), UNFOLDED)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the evidence by title."""
        return {
            EFFICIENCY: partial(self._chart, EFFICIENCY, efficiency_figure),
            "Every batch size": self._table,
            "How it was measured": partial(_how_measured, self._answer),
        }

    def share(self) -> None:
        name = f"scaling-{self._id}"
        files = study_files(
            name, partial(scaling_data, self._answer), text=partial(scaling_text, self._answer),
            figure=partial(speed_figure, self._answer),
        )  # fmt: skip
        share.panel(name, {"study": self._id}, files)

    def _chart(self, title: str, figure: Callable[[ScalingAnswer], object]) -> None:
        name = title.partition(" ")[0].lower()
        charts.show(
            f"scaling-{name}", partial(figure, self._answer), f"{title}. {headline(self._answer)}",
            f"scaling-{self._id}-{name}", (self._id,),
        )  # fmt: skip

    def _table(self) -> None:
        alt = "One row for each number of devices and batch size with speed-up and efficiencies."
        whole = st.column_config.NumberColumn(format="localized")
        evidence.table(table(self._answer), "scaling-batches", {"Batch": whole, "A replica": whole}, alt)


def _listed(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        st.markdown(f"**{plain(title)}**")
        for sentence in sentences:
            st.markdown(f"- {plain(sentence)}")


def table(answer: ScalingAnswer) -> pd.DataFrame:
    return pd.DataFrame(rows(answer), columns=[sentence_case(column) for column in COLUMNS])


def notices(answer: ScalingAnswer) -> tuple[str, ...]:
    """Return what qualifies the verdict, as sentences."""
    study = answer.study
    sentences = stopped(study.status, "study", f"what follows rests on its {len(study.rounds):,} rounds")
    sentences += few_starts(study.starts)
    warnings = (warning.text for warning in all_warnings(answer.run, answer.answer))
    return tuple(dict.fromkeys((*sentences, *notes(answer), *warnings)))


def _how_measured(answer: ScalingAnswer) -> None:
    study = answer.study
    facts = (
        ("Rounds", f"{len(study.rounds):,}", "One block of each target that can share the batch out, in turn."),
        ("Starts of the workers", f"{study.starts}", "Each counts as one observation; three are needed at least."),
        ("Time", duration(study.elapsed_s), f"Of a budget of {duration(study.plan.budget_s)}."),
    )  # fmt: skip
    note = (
        "Strong efficiency: step time of one device ÷ (devices × step time of several), with the same batch size. "
        "Weak efficiency: step time of one device ÷ that of several, with the same batch size on each device. What the "
        "smaller batch leaves: step time of one device ÷ (devices × its step time at the batch size of a replica). The "
        "first is the product of the other two."
    )
    evidence.how_measured(facts, study.environment, note, *placement_lines(answer.run))
