"""The Diagnosis page around its result: what to diagnose, the one that is running, which one is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
import streamlit as st

from core.analysis.answer import Answer
from core.analysis.remedies import REMEDIES, arms_for, family
from core.experiment import Diagnosis
from core.measure.diagnose import MIN_DIAGNOSIS_S, default_batch, default_target, run_diagnosis
from core.measure.studies import StudySnapshot, StudyTools
from core.results import Run
from core.spec import MAX_BUDGET_S
from core.store import RunNotFound
from core.ui import live, machine, registry, study_progress
from core.ui.diagnosed import same_machine
from core.ui.verdict import plain

KIND: Literal["diagnosis"] = "diagnosis"
BUDGET_S = 120.0
PROBLEM = "diagnosis_problem"
ELSEWHERE = (
    "This run names another machine than the one it would be diagnosed on now. Gains would be of this machine, the "
    "run's step times of the other."
)
REFUSED = "Something else is being measured on this machine; try again when it is done."


@dataclass(frozen=True)
class Request:
    """Which target to make faster, and at which batch."""

    target: int
    batch: int


def link(run: Run) -> None:
    """The way from a run to its diagnosis."""
    st.page_link("pages/diagnosis.py", label="What would help, measured on this machine", icon=":material/stethoscope:",
                 query_params={"run": run.id})  # fmt: skip


def refusal(run: Run, answer: Answer | None) -> str | None:
    """Why this run cannot be diagnosed here, or None."""
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


def form(run: Run, answer: Answer | None, why: str | None) -> Request | None:
    """Target, batch and budget, and the one button; None where there is nothing to choose from.

    ``why`` is the reason for which nothing can be started (:func:`refusal`).
    """
    if why is not None:
        st.info(plain(why), icon=":material/info:")
    if run.plan is None or answer is None:
        return None
    if why is None and not same_machine(run.environment, machine.now()):
        st.warning(ELSEWHERE, icon=":material/warning:")
    busy = live.busy_sentence() if why is None else None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = _target(run, answer)
        batch = _batch(run, answer, target)
        budget_s = st.number_input(
            "Budget (s)", MIN_DIAGNOSIS_S, MAX_BUDGET_S, BUDGET_S, 30.0, format="%.0f", key="diagnosis_budget",
            width=140, persist_state="session",
            help="For all of it. About 60 % go to the remedies, the rest to measuring the crossover anew.",
        )  # fmt: skip
        st.button(
            "Diagnose", type="primary", icon=":material/stethoscope:", key="diagnose", on_click=_start,
            args=(run, target, batch, budget_s), disabled=why is not None or busy is not None,
        )  # fmt: skip
    if busy and running() is None:
        st.info(plain(busy), icon=":material/hourglass_top:")
    if problem := st.session_state.pop(PROBLEM, None):
        st.warning(problem, icon=":material/hourglass_top:")
    return Request(target, batch)


def _target(run: Run, answer: Answer) -> int:
    measured = [target for target in (0, 1) if any(cell.target == target for cell in answer.cells)]
    default = default_target(run) if default_target(run) in measured else measured[0]
    chosen = st.segmented_control(
        "Target to make faster", measured, default=default, required=True, key=f"diagnosis_target-{run.id}",
        format_func=lambda index: plain(run.target_names[index]),
    )  # fmt: skip
    return default if chosen is None else chosen


def _batch(run: Run, answer: Answer, target: int) -> int:
    batches = [batch for batch in run.batches if answer.cell(target, batch) is not None]
    default = default_batch(run, answer, target)
    chosen = st.selectbox(
        "Batch size", batches, index=batches.index(default), key=f"diagnosis_batch-{run.id}-{target}", width=140,
        format_func=lambda size: f"{size:,}",
        help="Proposed: the largest at which this target is behind, else the middle one.",
    )  # fmt: skip
    return default if chosen is None else int(chosen)


def _start(run: Run, target: int, batch: int, budget_s: float) -> None:
    registry.quieten()

    def work(tools: StudyTools) -> Diagnosis:
        return run_diagnosis(tools, run, target, batch, budget_s)

    description = f"The diagnosis of run {run.id} ({run.target_names[target]} at batch {batch:,})"
    if registry.engine().jobs.start_study(KIND, description, work):
        st.query_params.pop("study", None)  # what comes of it is what to show
    else:
        st.session_state[PROBLEM] = REFUSED


def running() -> StudySnapshot | None:
    """The study of this page that runs in this process, or None."""
    return study_progress.running(KIND)


@st.fragment(run_every=live.POLL_S)
def progress() -> None:
    """The running diagnosis in numbers; when it has ended the page runs once more, without this timer."""
    study_progress.progress(KIND, "")


def failed() -> None:
    """Why the last diagnosis of this process has no result."""
    if (last := study_progress.error_of(KIND)) is not None:
        st.error(plain(f"{last.description} failed: {last.error}"), icon=":material/error:")


@st.fragment(run_every=live.WATCH_S)
def watch() -> None:
    """While idle: notice a diagnosis that another tab has started."""
    if running() is not None:
        st.rerun()


def shown(run: Run) -> tuple[str, Diagnosis] | None:
    """The diagnosis of this run in the address or chosen, else the newest, with its id; None where there is none.

    Its id is put into the address, so that the address reopens exactly this evidence; not while one runs, whose result
    is what the page then turns to.
    """
    found = _readable(run)
    if not found:
        return None
    ids = list(found)
    asked = st.query_params.get("study")
    if asked is not None and asked not in found:
        st.info("There is no such diagnosis of this run; its newest one is shown.", icon=":material/info:")
    study_id = asked if asked in found else ids[0]
    if len(ids) > 1 and not st.context.is_embedded:
        study_id = st.selectbox(
            "Diagnosis", ids, index=ids.index(study_id), key=f"diagnosis_study-{run.id}-{ids[0]}", width=480,
            format_func=lambda key: _name(run, found[key]),
        )  # fmt: skip
    if running() is None:
        st.query_params["study"] = study_id
    return study_id, found[study_id]


def _readable(run: Run) -> dict[str, Diagnosis]:
    """The diagnoses of a run that can be read, newest first; others are said."""
    found: dict[str, Diagnosis] = {}
    for summary in registry.diagnoses(run):
        try:
            found[summary.id] = registry.load_diagnosis(summary.id)
        except (RunNotFound, ValueError) as error:
            st.warning(plain(str(error)), icon=":material/search_off:")
    return found


def _name(run: Run, diagnosis: Diagnosis) -> str:
    experiment = diagnosis.experiment
    when = experiment.created_at.replace("T", " ")[:16]
    ended = "" if experiment.status == "finished" else f", {experiment.status}"
    return f"{run.target_names[diagnosis.target]} at batch {diagnosis.batch:,}, {when} UTC{ended}"


def before(run: Run, request: Request | None) -> None:
    """What a diagnosis is and what the one chosen would try."""
    st.markdown(
        "Every remedy that applies is measured beside the step as it is, in the same rounds and in fresh worker "
        "processes, so that its gain on this machine comes with an interval. With those that help, the crossover is "
        "measured anew."
    )
    if request is None or run.plan is None:
        return
    st.subheader("What would be tried", anchor=False)
    st.table(to_try(run, request), border="horizontal", hide_index=True)


def to_try(run: Run, request: Request) -> pd.DataFrame:
    """One row a remedy: the variants that would be measured, or why there are none."""
    arms, skipped = arms_for(run, request.target, request.batch)
    rows = []
    for name, remedy in REMEDIES.items():
        titles = [arm.title for arm in arms[1:] if family(arm.code) == name]
        tried = "; ".join(titles) if titles else f"Not tried: {skipped.get(name, '')}".rstrip(": ")
        rows.append({"Remedy": remedy.title, "What would be measured": plain(tried)})
    return pd.DataFrame(rows)
