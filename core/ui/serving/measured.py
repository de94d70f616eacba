"""“Do requests here agree?” on the Serving page: requests that really come, and what they showed."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.numbers import counted, duration
from core.base.schema import UserError
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.serving.answer import ServedAnswer
from core.studies.serving.export import served_row, served_sentences
from core.studies.serving.figures import served_figure
from core.studies.serving.kind import SERVING
from core.studies.serving.prediction import plan_to_serve, serving_answer
from core.studies.serving.record import ServingPlan, ServingStudy
from core.studies.serving.service import Service
from core.ui import charts, registry, share
from core.ui.card import label_badge, result_card
from core.ui.places import Places
from core.ui.study_page import StudyPage, busy_notice, refuse
from core.ui.tables import static_table
from core.ui.words import plain

PAGE = StudyPage(SERVING, "Serve requests here", ":material/cell_tower:")
HEADING = "Do requests here agree?"
BUDGETS_S = (60.0, 120.0, 300.0, 900.0)
COLUMNS = {
    "rate_per_s": "Requests/s", "requests": "Requests", "missed": "Missed", "low": "at least", "high": "at most",
    "latency_ms": "Latency (ms)", "size": "Mean batch", "state": "Limit",
}  # fmt: skip


def show(run: Run, service: Service) -> None:
    """Draw the button or the progress, and the study in the address, else the newest of the run."""
    if not st.context.is_embedded:
        st.header(HEADING, anchor=False)
    PAGE.flow(partial(_form, run, service), partial(_result, run), _before, run_id=run.id)


def _form(run: Run, service: Service, busy: str | None, top: Any) -> None:
    """Draw the time, and the button in its place. The plan is made from the prediction when it is pressed."""
    field, budgets_s = fields_of(ServingPlan)["budget_s"], {duration(budget_s): budget_s for budget_s in BUDGETS_S}
    budget_s: float = Places().plan_field(field, "served", budgets_s, index=1, width=170)
    with top:
        PAGE.start_button(budget_s, busy, partial(_start, run, service), type="secondary")
        if busy:
            busy_notice(busy)
        st.caption(plain(f"At most about {duration(budget_s)}, less once every rate is clear."))
        PAGE.refusal()


def _start(run: Run, service: Service, budget_s: float) -> None:
    """Start a study of the service that the page shows, with padded batches."""
    try:
        answer = registry.answer_of(run)
        if answer is None:
            raise UserError("No round was measured in this run, so no rate is known to serve at.")
        predicted = serving_answer(run, answer, service.model_copy(update={"pads": True}))
        PAGE.start(plan_to_serve(run, predicted, budget_s=budget_s))
    except UserError as error:
        refuse(SERVING, str(error))


def _before(_: ServingPlan | None) -> None:
    """Say what a study is."""
    st.markdown(
        "A batcher in a process per target, and requests that come at their own times, at 0.9, 1.1 and 0.7 of the "
        "predicted rate and then where it is not clear. Batches are padded to powers of two."
    )


def _result(run: Run, study_id: str, study: ServingStudy) -> None:
    """Draw a study's verdict, its chart, the rates, and its files."""
    try:
        answer: ServedAnswer = registry.once(
            ("served", study_id), lambda: SERVING.answer(study, registry.context(SERVING, study))
        )
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    first, *more = served_sentences(answer)
    about = f"{study.title}; {counted(answer.visits, 'visit')} in {duration(study.elapsed_s)}"
    result_card(SERVING.title, [label_badge(study.label)], first, (about,), status=study.status, more=more)
    picture = partial(served_figure, study, answer)
    charts.show(f"served-{study_id}", picture, f"Measured latency by request rate. {first}", f"serving-{study_id}",
                (study_id,), omit=(workload_line(run),))  # fmt: skip
    with st.expander("Every rate"):
        for target in answer.targets:
            st.markdown(f"**{plain(target.title)}**")
            static_table(
                [{COLUMNS[name]: value or "" for name, value in served_row(rate).items()} for rate in target.rates]
            )
    query = {"run": run.id, PAGE.address: study_id}
    share.study(SERVING, study_id, study, query, picture, lambda data: data["record"]["visits"])
