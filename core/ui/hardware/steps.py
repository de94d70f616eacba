"""Choices of how steps run on the Hardware page: the decisive ones beside the verdict, rarely changed ones folded."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from core.frameworks import Execution, Precision
from core.hardware.conditions import Build, Conditions
from core.hardware.constants import EXECUTIONS, PRECISIONS
from core.hardware.host import KIND_WORDS
from core.hardware.host_kinds import USUAL_KIND, kind_of
from core.studies.sweep.loop import loop_name
from core.studies.sweep.record import Run
from core.ui import machine
from core.ui.hardware import page
from core.ui.hardware.draft import Options
from core.ui.words import EXECUTION_HELP, TF32_HELP, plain

FED, RESIDENT = "Fed each step", "Resident"
MEASURED_HERE, MEASURED_ELSEWHERE = "Measured on this machine", "Measured on another machine"
BUILDS: dict[Build, str] = {"unnamed": "Not named", "keras": "Keras 3", "fused": "A fused build"}
KINDS: dict[str, str] = {str(kind): words.capitalize() for kind, words in KIND_WORDS.items()} | {"unnamed": "Not named"}


def decisive(run: Run, asked: Options) -> Build:
    """Ask in plain words for the two most decisive conditions: the machine around the card, and whose code runs on it.

    The host is kept only in the address, where a newly measured study replaces it.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _host(run, asked.host)
        build: Build = st.segmented_control(
            "Whose code runs on it", get_args(Build), default=asked.conditions.build, required=True,
            key=f"hardware_build-{run.id}", format_func=BUILDS.__getitem__,
            help="A vendor’s fused build (NVIDIA’s containers, PyTorch) runs normalisation, loss and optimizer as one "
            "kernel each; Keras 3 writes them as many small operations. Until it is named the intervals span both.",
        )  # fmt: skip
    return build


def choices(run: Run, asked: Options, build: Build) -> tuple[Precision, Execution, Conditions]:
    """Ask for the settings that are rarely changed."""
    with st.popover("How steps run", icon=":material/tune:", width="content"):
        loop = loop_name(run)
        under_fit = st.checkbox(
            f"Under {plain(loop)}", value=asked.conditions.under_fit, key=f"hardware_fit-{run.id}",
            help=f"Adds what Keras’s own loop ({plain(loop)}: callbacks, metrics, progress bar) costs a step. The "
            "CPU’s steps were measured without it.",
        )  # fmt: skip
        with st.container(horizontal=True):
            precision: Precision = st.selectbox(
                "Precision", PRECISIONS, index=PRECISIONS.index(asked.precision), width=170,
                key=f"hardware_precision-{run.id}", help=f"On the GPU. {TF32_HELP}",
            )  # fmt: skip
            execution: Execution = st.selectbox(
                "Execution", EXECUTIONS, index=EXECUTIONS.index(asked.execution), width=130,
                key=f"hardware_execution-{run.id}", help=f"On the GPU. {EXECUTION_HELP}",
            )  # fmt: skip
        data = st.segmented_control(
            "Data", [RESIDENT, FED], default=FED if asked.conditions.fed else RESIDENT, required=True,
            key=f"hardware_data-{run.id}", help="Already on the card, or over the link in each step.",
        )  # fmt: skip
    return precision, execution, Conditions(fed=data == FED, build=build, under_fit=under_fit)


def _host(run: Run, asked: str) -> None:
    """Ask for the machine that drives the cards.

    The field's key contains the host in use, since that may change without the field.
    """
    known = page.studies(run)
    counts = page.counting(asked, known)
    measured = [counts] if counts in known else list(known)[:1]
    names = {key: MEASURED_HERE if known[key].label == "measured" else MEASURED_ELSEWHERE for key in measured}
    names |= KINDS
    like_this = kind_of(machine.now().cpu, machine.now().usable_cores)
    if like_this != USUAL_KIND:
        names[like_this] += " (like this one)"
    key = f"hardware_host-{run.id}-{counts}"
    st.selectbox(
        "Machine around the card", list(names), index=list(names).index(counts), format_func=names.__getitem__,
        key=key, on_change=_turn, args=(key,), width=330,
        help="Its CPU hands over every operation. A weak cloud machine has 2 virtual cores, as free notebooks have. "
        "Until it is named the intervals span the machines in which such cards are found. “Host and evidence” below "
        "measures this machine.",
    )  # fmt: skip


def _turn(key: str) -> None:
    st.query_params["host"] = st.session_state[key]
