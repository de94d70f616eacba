"""The Job page: a script's job in the frame of every result, and a form that measures its network again here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.fields import fields_of
from core.base.numbers import duration, percent
from core.base.schema import UserError
from core.figures.style import environment_line
from core.studies.job.answer import job_answer
from core.studies.job.breakdown import PARTS, captured_workload
from core.studies.job.capture import Capture
from core.studies.job.export import (
    CARD_COLUMNS,
    COLUMNS,
    PART_COLUMNS,
    card_rows,
    headline,
    job_data,
    job_text,
    lines,
    row,
)
from core.studies.job.figures import length_figure, time_figure
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, JobStudy
from core.ui import charts, evidence, frame, machine, navigation, registry, share
from core.ui.card import draw_notes, label_badge, result_card
from core.ui.checks import Checks
from core.ui.downloads import study_files
from core.ui.fields import target_fields
from core.ui.notices import Notice
from core.ui.places import Places
from core.ui.study_page import StudyPage
from core.ui.tables import cleaned
from core.ui.words import plain
from core.workload.spec import Target

QUESTION = "Which target is faster for your own script?"
COMMAND = "python -m core run -- train.py"
PAGE = StudyPage(JOB, "Measure its network here")
PLAN = fields_of(JobPlan)


class Parts:
    """The parts of a result's frame, for one job. Raises UserError if it supports no answer."""

    def __init__(self, study_id: str, study: JobStudy) -> None:
        self._id, self._study = study_id, study
        self._answer = job_answer(study)
        self._picture = length_figure if self._answer.targets else time_figure

    def verdict(self) -> None:
        study, answer = self._study, self._answer
        badges = [label_badge(study.label)]
        badges += [label_badge("modelled", "cards")] if any(card.step_s for card in answer.cards) else []
        first, *more = lines(study, answer)
        result_card(f"Job {study.capture.script}", badges, first, (environment_line(study),), status=study.status,
                    more=more)  # fmt: skip

    def picture(self) -> None:
        """Draw the time by length if targets were measured, and where the time went."""
        if self._answer.targets:
            self._chart("length", length_figure)
        self._chart("time", time_figure)

    def notes(self) -> None:
        draw_notes(tuple(Notice("warning", warning.text) for warning in self._study.warnings), 1)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the tables by title."""
        answer = self._answer
        wall_s = max(sum(answer.seconds.values()), 1e-9)
        shown = ((part, each_s) for part, each_s in answer.seconds.items() if each_s)
        parts = [(PARTS[part], each_s, percent(each_s / wall_s, 1)) for part, each_s in shown]
        tables: dict[str, Callable[[], None]] = {
            "Every part of the time": partial(_table, parts, PART_COLUMNS, "parts")
        }
        if answer.causes:
            rows = [(cause.what, duration(cause.seconds), cause.remedy) for cause in answer.causes]
            tables["What costs most besides the steps"] = partial(
                _table, rows, ("cause", "time", "what saves it"), "causes"
            )
        if answer.targets:
            tables["Every target"] = partial(_table, [row(target) for target in answer.targets], COLUMNS, "targets")
        if answer.cards:
            tables["Modelled cards"] = partial(
                _table, card_rows(answer.cards), (*CARD_COLUMNS[:-1], "why not"), "cards"
            )
        return tables

    def share(self) -> None:
        name, figure = f"job-{self._id}", partial(self._picture, self._study, self._answer)
        data = partial(job_data, self._study, self._answer)
        text = partial(job_text, self._study, self._answer)
        files = study_files(name, data, text=text, figure=figure, rows=itemgetter("targets"))
        share.panel(name, {PAGE.address: self._id}, files)

    def _chart(self, name: str, figure: Callable[..., object]) -> None:
        charts.show(
            f"job-{name}", partial(figure, self._study, self._answer),
            f"{headline(self._study, self._answer)}", f"job-{self._id}-{name}", (self._id,),
            omit=lines(self._study, self._answer),
        )  # fmt: skip


def _table(rows: Sequence[Sequence[object]], columns: Sequence[str], key: str) -> None:
    evidence.table(cleaned(pd.DataFrame(rows, columns=list(columns))), f"job-{key}")


def result(study_id: str, study: JobStudy, head: DeltaGenerator) -> None:
    """Show a job; ``head`` is the place of the heading."""
    frame.show_parts(f"Which target is faster for {study.capture.script}?", partial(Parts, study_id, study), head)


def before(_: JobPlan | None) -> None:
    """Explain how a script becomes a job."""
    st.markdown(
        "Run your own script, unchanged, in a terminal on this machine. Breakeven watches what it does with Keras, "
        "says where its time goes, and measures its network on the targets: which one is faster for this job, and from "
        "how many epochs on, start and compiling included."
    )
    st.code(COMMAND, language=None)
    st.caption("The job then stands here. From another machine: write it with --out job.json and import that.")
    navigation.link("history", "Import a job in History")


def form(busy: str | None, top: DeltaGenerator) -> JobPlan | None:
    """Draw the target to compare the script's own with, and the budget; None if there is no job to measure."""
    capture = _capture()
    if capture is None:
        st.caption("No job is shown here whose network could be measured without its script.")
        return None
    wrong, checks, here = Places(), Checks(), machine.devices()
    st.markdown(f"**{plain(capture.script)}**: its network on another target of this machine")
    usual = here.default_targets()[1] if here.has_gpu else Target(execution="xla")
    target = target_fields("job", usual, here)
    wrong.here("targets")
    budget_s = wrong.plan_field(PLAN["budget_s"], "job")
    values = checks.fields(JobPlan, {"budget_s": budget_s})
    chosen = checks.attempt("targets", lambda: (Target(**target),))
    outcome = checks.outcome("targets", lambda: JobPlan.model_validate(
        {"budget_s": values.get("budget_s"), "capture": capture, "targets": chosen}
    ))  # fmt: skip
    wrong.fill(outcome.errors)
    with top:
        PAGE.form_button(outcome, busy, lambda plan: f"At most {duration(plan.budget_s)}.")
    return outcome.plan


def _capture() -> Capture | None:
    """Return what was seen of the job in the address, else of the newest one here, if its network can be measured."""
    newest = next((summary.id for summary in registry.studies(JOB)), None)
    study_id = st.query_params.get(PAGE.address, newest)
    if study_id is None:
        return None
    try:
        capture = PAGE.load(study_id).capture
        captured_workload(capture)
    except UserError:
        return None
    return capture
