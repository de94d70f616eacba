"""Validations on the Hardware page: predictions for a GPU and the later measurements on it, as table and chart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
import streamlit as st

from core.base.schema import UserError
from core.studies.compiled.traced import TRACED_COLUMNS, traced_row
from core.studies.validation.answer import validation
from core.studies.validation.export import COLUMNS, lines, row, validation_data
from core.studies.validation.figures import validation_figure
from core.studies.validation.kind import VALIDATION
from core.ui import charts, registry, share
from core.ui.card import label_badge, result_card
from core.ui.study_page import StudyPage
from core.ui.tables import cleaned
from core.ui.words import plain

TITLE = "Predicted, then measured"
PAGE = StudyPage(VALIDATION, "")


def part() -> dict[str, Callable[[], None]]:
    """Return this part of the page by its title if a validation is stored; it is open if the address asks for one."""
    requested = PAGE.address in st.query_params
    if not requested and not registry.studies(VALIDATION):
        return {}
    if requested:
        st.session_state.setdefault(f"folded-{TITLE}", True)
    return {TITLE: show}


def show() -> None:
    """Show the validation in the address, else the newest: verdict, chart, every step, and its file."""
    shown = PAGE.shown()
    if shown is None:
        return
    study_id, study = shown
    try:
        answer = validation(study)
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    headline, *more = lines(study, answer)
    badges = [label_badge(study.label), label_badge("modelled", "predictions")]
    result_card(TITLE, badges, headline, more, status=study.status)
    charts.show(f"validation-{study_id}", partial(validation_figure, study, answer),
                f"Measured over predicted step time. {headline}", f"validation-{study_id}", (study_id,))  # fmt: skip
    table = pd.DataFrame([row(step) for step in answer.steps], columns=list(COLUMNS))
    st.dataframe(cleaned(table), hide_index=True)
    if answer.traced:
        st.markdown("**Kernels traced here, and compiled without the card**")
        traced = pd.DataFrame([traced_row(step) for step in answer.traced], columns=list(TRACED_COLUMNS))
        st.dataframe(cleaned(traced), hide_index=True)
    share.json_button(f"validation-{study_id}", partial(validation_data, study, answer), share.EVERY_BLOCK)
