"""The run proposed on this CPU for comparing it with a GPU: a short look for its best setting, then a whole sweep."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from core.base.numbers import duration
from core.base.schema import UserError
from core.machine.environment import available_memory_bytes
from core.rounds.answer.best_cpu import LOOK_BATCHES, rank_cpus
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.sweep.kind import new_run
from core.studies.sweep.presets import cpu_settings, look_plan
from core.ui import machine, registry
from core.ui.study_page import busy_notice, busy_sentence
from core.ui.sweep import draft, live
from core.ui.words import plain
from core.workload.names import all_of
from core.workload.spec import Workload

BUTTON = "Find this CPU's best setting"
RIVALS = 2
"""Number of a look's settings that are measured further, at every batch size."""
OFFER = (
    "Which setting of this CPU is the best for this network was not measured here yet. That a GPU is faster than a "
    "badly set CPU says nothing."
)


def proposal(workload: Workload) -> draft.SweepOutcome:
    """Return the plan of a look at this CPU's settings, or after a look that of its best two at all batch sizes."""
    here = machine.devices()
    looked = newest_look(workload)
    answer = None if looked is None else registry.answer_of(looked)
    ranking = None if looked is None or answer is None else rank_cpus(looked, answer)
    if looked is None or looked.plan is None or ranking is None:
        plan = look_plan(workload, here.threads)
    else:
        plan = draft.untouched(workload, tuple(looked.plan.targets[i] for i in ranking.targets[:RIVALS]))
    return draft.fitting(plan, available_memory_bytes(), machine.now().limited_words)


def newest_look(workload: Workload) -> Run | None:
    """Return this machine's newest finished run that measured all of its CPU's settings for the workload."""
    wanted = cpu_settings(machine.devices().threads)
    names = {str(target) for target in wanted}
    for summary in registry.summaries():
        if summary.label == "measured" and summary.status == "finished" and names <= {*summary.target_names}:
            with suppress(UserError):  # a damaged run reports it when opened
                if (run := registry.find_run(summary.id)).plan is not None and run.plan.workload == workload:
                    return run
    return None


def says(plan: SweepPlan) -> str:
    """Describe what a proposed plan measures."""
    if plan.batches != LOOK_BATCHES:
        return draft.says(plan)
    at = all_of([f"{batch:,}" for batch in plan.batches])
    ends = f"{plan.title}, at most {duration(plan.budget_s)}."
    return f"A short look at which setting of this CPU is the best, at batch {at}: {ends}"


def propose(workload: Workload, label: str, *, elsewhere: bool = False) -> None:
    """Show the button for the proposed run, with what it measures or why it cannot run.

    Args:
        elsewhere: The button is on another page than Start, which shows the progress.
    """
    outcome, busy = proposal(workload), busy_sentence()

    def begin(plan: SweepPlan) -> None:
        live.PAGE.start(new_run(plan))
        if elsewhere and live.PAGE.running() is not None:
            st.switch_page("pages/start.py")  # Start shows the progress

    live.PAGE.start_button(outcome.plan, busy, begin, label=label, icon=":material/speed:")
    if busy:
        busy_notice(busy)
    elif outcome.plan is not None:
        st.caption(plain(says(outcome.plan)))
    for problem in outcome.errors.values():
        st.caption(f":material/error: {plain(problem)}")


def offer(workload: Workload) -> None:
    """Offer the look on a page other than Start, unless there was one or the server is read-only."""
    if registry.read_only() or newest_look(workload) is not None:
        return
    with st.container(border=True):
        st.markdown(plain(OFFER))
        propose(workload, BUTTON, elsewhere=True)
        live.PAGE.refusal()
