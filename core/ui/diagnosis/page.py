"""The Diagnosis page around its result: what to diagnose, and what would be tried."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.base.evidence import same_machine
from core.base.text import sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.remedies import REMEDIES, arms_for, family
from core.studies.diagnosis.run import DEFAULT_BUDGET_S, MIN_DIAGNOSIS_S, DiagnosisPlan, default_batch, default_target
from core.ui import frame, machine, navigation, registry
from core.ui.diagnosis.result import Parts
from core.ui.study_page import StudyPage, busy_notice, busy_sentence
from core.ui.tables import written
from core.ui.words import plain
from core.workload.spec import MAX_BUDGET_S

PAGE = StudyPage(DIAGNOSIS, "Diagnose", ":material/stethoscope:")
ELSEWHERE = (
    "This run names another machine than the one it would be diagnosed on now. Gains would be of this machine, the "
    "run's step times of the other."
)


def show(run: Run) -> None:
    """Show the whole page: the diagnosis of a run, and the form for the next one."""
    if st.context.is_embedded:
        _embedded(run)
        return
    answer = registry.answer_of(run)
    why, head = refusal(run, answer), st.container()
    left, right = frame.choice_and_form(PAGE.has_choice(run.id))
    with left:
        found = PAGE.shown(run.id)
    heading = f"What would help? {run.name}"
    if found is None or PAGE.running() is not None:
        with head:
            frame.top(heading)
        plan = form(run, answer, why)
        (PAGE.failure if PAGE.running() is None else PAGE.progress)()
        if found is None:
            before(run, plan)
    else:
        with right:
            _another(run, answer, why)
        frame.show_parts(heading, partial(Parts, run, *found), head)
    navigation.link("crossover", run=run.id)


def _embedded(run: Run) -> None:
    asked, found = PAGE.address in st.query_params, PAGE.shown(run.id)
    if found is not None:
        parts = Parts(run, *found)
        frame.show("", parts.verdict, parts.picture, notes=parts.notes)
    elif not asked:
        st.info("This run has no diagnosis yet.", icon=":material/stethoscope:")


def _another(run: Run, answer: Answer | None, why: str | None) -> None:
    """Draw the form, folded above a result; say if and why nothing can be started."""
    PAGE.failure()
    with st.expander("Diagnose another target or batch size", icon=":material/tune:"):
        plan = form(run, answer, why)
        if why is not None:
            before(run, plan)


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


def form(run: Run, answer: Answer | None, why: str | None) -> DiagnosisPlan | None:
    """Draw target, batch, budget and button; return the plan, or None if there is nothing to choose from.

    ``why`` is the reason why nothing can be started (:func:`refusal`).
    """
    if why is not None:
        st.info(plain(why), icon=":material/info:")
    if run.plan is None or answer is None:
        return None
    if why is None and same_machine(run.environment, machine.now()) is False:
        st.warning(ELSEWHERE, icon=":material/warning:")
    busy = busy_sentence() if why is None else None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = _target(run, answer)
        batch = _batch(run, answer, target)
        budget_s = st.number_input(
            "Budget (s)", MIN_DIAGNOSIS_S, MAX_BUDGET_S, DEFAULT_BUDGET_S, 30.0, format="%.0f", key="diagnosis_budget",
            width=140, persist_state="session",
            help="For all of it. About 60 % go to the remedies, the rest to re-measuring the crossover.",
        )  # fmt: skip
        plan = DiagnosisPlan(run, target, batch, budget_s)
        PAGE.start_button(plan if why is None else None, busy)
    if busy and PAGE.running() is None:
        busy_notice(busy)
    PAGE.refusal()
    return plan


def _target(run: Run, answer: Answer) -> int:
    measured = [target for target in range(len(run.names)) if any(cell.target == target for cell in answer.cells)]
    default = default_target(run) if default_target(run) in measured else measured[0]
    chosen = st.segmented_control(
        "Target to make faster", measured, default=default, required=True, key=f"diagnosis_target-{run.id}",
        format_func=lambda index: plain(sentence_case(run.names[index])),
    )  # fmt: skip
    return default if chosen is None else chosen


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
    st.table(written(to_try(run, request)), border="horizontal", hide_index=True)


def to_try(run: Run, request: DiagnosisPlan) -> pd.DataFrame:
    """Return one row per remedy: the variants that would be measured, or why there are none."""
    arms, skipped = arms_for(run, request.target, request.batch)
    rows = []
    for name, remedy in REMEDIES.items():
        titles = [arm.title for arm in arms[1:] if family(arm.code) == name]
        tried = "; ".join(titles) if titles else f"Not tried: {skipped.get(name, '')}".rstrip(": ")
        rows.append({"Remedy": remedy.title, "What would be measured": tried})
    return pd.DataFrame(rows)
