"""“What can this machine show?” on the Method page: one target measured against itself, and the result."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.numbers import counted, duration, number, percent
from core.base.schema import UserError
from core.networks.families import network_from_name
from core.studies.resolution.answer import Resolution
from core.studies.resolution.export import lines, sentence
from core.studies.resolution.kind import RESOLUTION
from core.studies.resolution.record import LARGEST, ResolutionPlan, ResolutionStudy, resolution_plan, spread_batches
from core.ui import machine, registry, share
from core.ui.card import label_badge, result_card
from core.ui.places import Places
from core.ui.study_page import StudyPage, busy_notice
from core.ui.tables import static_table
from core.ui.words import plain
from core.workload.spec import Workload

NETWORK = "784-512-512-10"
BUDGETS_S = (30.0, 60.0, 120.0, 240.0)
PAGE = StudyPage(RESOLUTION, "What can this machine show?", ":material/straighten:")


def show() -> None:
    """Draw the button or the progress, and the study in the address, else the newest."""
    PAGE.flow(_form, _result, _before)


def _form(busy: str | None, top: Any) -> ResolutionPlan:
    """Draw target and budget, and the button in its place; return the plan."""
    target = machine.choose_target("resolution_target")
    budgets_s = {duration(budget_s): budget_s for budget_s in BUDGETS_S}
    field = fields_of(ResolutionPlan)["budget_s"]
    budget_s = Places().plan_field(field, "resolution", budgets_s, index=1, label="Budget")
    workload = Workload(network=network_from_name(NETWORK))
    plan = resolution_plan(workload, target, spread_batches(1, LARGEST, target.replicas), budget_s)
    with top:
        PAGE.start_button(plan, busy, type="secondary")
        if busy:
            busy_notice(busy)
        PAGE.refusal()
    return plan


def _before(plan: ResolutionPlan | None) -> None:
    """Say what a study is and what the chosen one would measure."""
    st.markdown(
        "Two workers of the same target take turns as in every sweep. Nothing differs, so that what still seems to "
        "differ is this machine's noise: smaller differences than that do not show here in such a time."
    )
    if plan is not None:
        batches = ", ".join(f"{batch:,}" for batch in plan.batches)
        st.caption(plain(f"{plan.title}, batch {batches}, for {duration(plan.budget_s)}."))


def _result(study_id: str, study: ResolutionStudy) -> None:
    """Draw a study's result, its batches, and its file."""
    context = registry.context(RESOLUTION, study)
    try:
        resolution = RESOLUTION.answer(study, context)
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    about = f"{study.plan.title}; {counted(len(study.run.rounds), 'round')} in {counted(resolution.starts, 'start')}"
    card = result_card(
        RESOLUTION.title, [label_badge(study.label)], sentence(study, resolution), (about,), status=study.status,
        more=lines(resolution),
    )  # fmt: skip
    with card:
        static_table(_rows(resolution))
        data = partial(RESOLUTION.export, study, resolution, context)
        share.json_button(f"resolution-{study_id}", data, share.EVERY_BLOCK)


def _rows(resolution: Resolution) -> list[dict[str, str]]:
    """Return one row per batch."""
    return [
        {
            "Batch size": f"{at.batch:,}",
            "Step time (ms)": number(at.step_ms),
            "Differences show from": "no interval" if at.difference is None else percent(at.difference, 1),
        }
        for at in resolution.batches
    ]
