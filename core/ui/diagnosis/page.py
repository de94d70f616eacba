"""The Diagnosis page around its result: what to diagnose, and what would be tried."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.evidence import same_machine
from core.base.fields import fields_of
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.remedies import REMEDIES, arms_for, family
from core.studies.diagnosis.run import DiagnosisPlan, default_batch, default_target
from core.ui import frame, machine, navigation, news, registry, shown_run
from core.ui.checks import Checks
from core.ui.diagnosis.result import Parts
from core.ui.diagnosis.result import so_far as result_so_far
from core.ui.places import Places
from core.ui.study_page import StudyPage, takes
from core.ui.tables import static_table
from core.ui.words import plain

PAGE = StudyPage(DIAGNOSIS, "Diagnose", ":material/stethoscope:")
QUESTION = "What would make it faster?"
ELSEWHERE = (
    "This run names another machine than the one it would be diagnosed on now. Gains would be of this machine, the "
    "run's step times of the other."
)


def show(run: Run) -> None:
    """Show the whole page: the diagnosis of a run, and the form for the next one."""
    answer, requested = registry.answer_of(run), PAGE.address in st.query_params

    def result(study_id: str, diagnosis: Diagnosis, head: DeltaGenerator) -> None:
        frame.show_parts(QUESTION, partial(Parts, run, study_id, diagnosis), head, run.name)

    def so_far() -> None:
        running = PAGE.running()
        result_so_far(run, None if running is None else running.record)

    PAGE.frame(
        QUESTION, partial(form, run, answer), result, partial(before, run),
        partial(news.redrawn, "diagnosis", so_far, changes=False), run_id=run.id, subject=run.name,
    )  # fmt: skip
    if not st.context.is_embedded:
        navigation.link("crossover", run=run.id)
    elif not requested and not registry.studies(DIAGNOSIS, run.id):
        st.info("This run has no diagnosis yet.", icon=":material/stethoscope:")


def refusal(run: Run, answer: Answer | None) -> str | None:
    """Return why this run cannot be diagnosed here, or None."""
    if run.plan is None:
        return "Only points were imported for this run. Without its plan no remedy can be tried."
    if run.status == "running":
        return "This sweep is still running. A diagnosis starts from its verdict, so wait until it has ended."
    if answer is None:
        return "No round was measured in this run, so there is nothing to diagnose."
    if run.label != "measured":
        return (
            f"This run is {run.label}: its step times come from another machine, and remedies measured on this one "
            "would say nothing about it. Measure the same plan here first, then diagnose that run."
        )
    return None


def form(run: Run, answer: Answer | None, busy: str | None, top: Any) -> DiagnosisPlan | None:
    """Draw target, batch and budget, and the button at the ``top``; return the plan, or None without a choice.

    ``busy``: why nothing can be started now.
    """
    if (why := refusal(run, answer)) is not None:
        st.info(plain(why), icon=":material/info:")
    if run.plan is None or answer is None:
        return None
    if why is None and same_machine(run.environment, machine.now()) is False:
        st.warning(ELSEWHERE, icon=":material/warning:")
    checks, wrong, budget = Checks(), Places(), fields_of(DiagnosisPlan)["budget_s"]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = _target(run, answer)
        batch = _batch(run, answer, target)
    budget_s = checks.field(budget, wrong.plan_field(budget, "diagnosis", width=140))
    outcome = checks.outcome(budget.name, lambda: DiagnosisPlan(run, target, batch, budget_s))
    wrong.fill(outcome.errors)
    with top:
        if why is None:
            PAGE.form_button(outcome, busy, lambda plan: f"{DIAGNOSIS.describe(plan)}, {takes(plan.budget_s)}.")
        else:
            PAGE.start_button(None, busy)
    return outcome.plan


def _target(run: Run, answer: Answer) -> int:
    measured = [target for target in range(len(run.names)) if any(cell.target == target for cell in answer.cells)]
    default = default_target(run) if default_target(run) in measured else measured[0]
    return shown_run.choose_target(run, "Target to make faster", measured, default, "diagnosis_target")


def _batch(run: Run, answer: Answer, target: int) -> int:
    batches = [batch for batch in run.batches if answer.cell(target, batch) is not None]
    default = default_batch(run, answer, target)
    chosen = st.selectbox(
        "Batch size", batches, index=batches.index(default), key=f"diagnosis_batch-{run.id}-{target}", width=140,
        format_func=lambda size: f"{size:,}",
        help="Proposed: the largest at which this target is slower than another, else the middle one.",
    )  # fmt: skip
    return default if chosen is None else int(chosen)


def before(run: Run, request: DiagnosisPlan | None) -> None:
    """Explain a diagnosis and what the chosen one would try."""
    st.markdown(
        "Every remedy that applies is measured beside the step as it is, in the same rounds and in fresh worker "
        "processes, so that its gain on this machine comes with an interval. With those that help, the crossover is "
        "re-measured."
    )
    if request is None or run.plan is None:
        return
    st.header("What would be tried", anchor=False)
    static_table(to_try(run, request))


def to_try(run: Run, request: DiagnosisPlan) -> pd.DataFrame:
    """Return one row per remedy: the variants that would be measured, or why there are none."""
    arms, skipped = arms_for(run, request.target, request.batch)
    rows = []
    for name, remedy in REMEDIES.items():
        titles = [arm.title for arm in arms[1:] if family(arm.code) == name]
        tried = "; ".join(titles) if titles else f"Not tried: {skipped.get(name, '')}".rstrip(": ")
        rows.append({"Remedy": remedy.title, "What would be measured": tried})
    return pd.DataFrame(rows)
