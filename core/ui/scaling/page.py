"""The Scaling page: a study in the frame of every result, and the form for the next one."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.schema import UserError
from core.studies.progress import Snapshot
from core.studies.scaling.answer import scaling_answer
from core.studies.scaling.export import headline
from core.studies.scaling.figures import speed_figure
from core.studies.scaling.kind import SCALING
from core.studies.scaling.record import TRY_OUT, ScalingPlan, ScalingStudy
from core.ui import charts, frame, machine, navigation, news
from core.ui.scaling.result import Parts, heading
from core.ui.study_page import StudyPage
from core.ui.tables import written
from core.ui.words import plain

QUESTION = "From which batch are several devices faster than one?"
TRY_BUTTON = "Try it out on logical CPUs"


def _counts(snapshot: Snapshot) -> str:
    done, wanted = snapshot.progress.cells_done, snapshot.progress.cells_total
    return f"{done:,} of {max(done, wanted):,} starts done."


PAGE = StudyPage(SCALING, "Measure scaling", counts=_counts)


def result(study_id: str, study: ScalingStudy, head: DeltaGenerator) -> None:
    """Show a study; ``head`` is the place of the heading."""
    frame.show_parts(heading(study), partial(Parts, study_id, study), head)


def needs_two() -> None:
    """Say that scaling needs two GPUs, and the alternatives, if this machine has fewer."""
    gpus = machine.devices().usable_gpus
    if len(gpus) > 1:
        return
    gpus_here = "has one GPU that can be used" if gpus else "has no GPU that can be used"
    st.info(
        plain(
            f"A scaling study needs two devices, and this machine {gpus_here}. Run the command scaling where there are "
            "several and import its file here. Logical CPUs of this machine try the study out; they share its cores "
            "and show no speed."
        ),
        icon=":material/memory_alt:",
    )
    navigation.link("history", "Import a study in History")


def before(plan: ScalingPlan | None) -> None:
    """Explain a study, its result, and what the chosen one would measure; say so if it needs more GPUs."""
    needs_two()
    st.markdown(
        "One device and several run the same steps in turn: with the same batch size, and with the same batch size on "
        "each device. The result shows the throughput of each by batch size, from which batch several devices are "
        "faster than one, and the efficiency: throughput over that of one device times the number of devices. Where "
        "it is low it says why (the fixed cost of a step, a small batch per replica, the all-reduce) and what would "
        "help."
    )
    if plan is None:
        return
    st.markdown("**What will be measured**")
    rows = [
        {"Devices": name, "Batch sizes": ", ".join(f"{b:,}" for b in plan.batches if b % target.replicas == 0)}
        for name, target in zip(plan.names, plan.targets, strict=True)
    ]
    st.table(written(pd.DataFrame(rows)), border="horizontal", hide_index=True)
    if plan.is_tried_out:
        st.caption(f"{TRY_OUT}.")


def so_far() -> None:
    """Show the curves of the running study so far."""
    news.redrawn("scaling", _so_far, changes=False)


def _so_far() -> None:
    running = PAGE.running()
    if running is None or running.record is None:
        return
    try:
        answer = scaling_answer(running.record)
    except UserError:
        st.caption("The first points appear with the first rounds; starting the workers takes some seconds.")
        return
    with st.container(border=True):
        st.markdown("**Estimate so far**")
        st.markdown(plain(headline(answer)))
    charts.show(
        "scaling-live", partial(speed_figure, answer), f"Throughput so far. {headline(answer)}", "scaling-so-far",
        border=False,
    )  # fmt: skip
