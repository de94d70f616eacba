"""The targets of the Sweep page's form: one to six, added, removed, or set by a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.base.evidence import MAX_TARGETS
from core.base.frameworks import FRAMEWORKS, Framework
from core.base.schema import UserError
from core.base.text import sentence_case
from core.studies.sweep.presets import PRESETS, another
from core.ui import machine
from core.ui.fields import (
    STEPS_PER_EXECUTION,
    call_field,
    device_field,
    execution_field,
    of_target,
    pad_field,
    precision_field,
    steps_field,
    threads_field,
)
from core.ui.places import KEEP, Places
from core.ui.words import plain
from core.workload.names import device_words, shown_names
from core.workload.spec import Target, Workload

OFFERED = tuple(name for name in FRAMEWORKS if name != "pytorch")
"""Frameworks offered; native PyTorch runs the user's own code (``--model``), which pages do not accept."""
OPEN = 2
"""Maximum number of targets with open main fields; with more, each is one line until it is changed."""
ROWS, NEWEST = "form_targets", "form_newest_target"
PRESET_HELP = "Puts these targets in place of those below, ready to be changed."
BASELINE = "Baseline"
BASELINE_HELP = "The others are held against the first target."


@dataclass(frozen=True)
class Row:
    """A target of the form; ``number`` ends its keys and is never reused, ``default`` has the first values."""

    number: int
    default: Target


class TargetRows:
    """All targets of the form. They are ``chosen`` once drawn; :meth:`finish` then shows their names.

    ``missing`` has a sentence for each framework that is not installed here; ``several``: inputs of several lengths.
    """

    def __init__(
        self, here: machine.Machine, mode: str, wrong: Places, missing: Mapping[str, str], *, several: bool
    ) -> None:
        self._several = several
        self._here, self._infers, self._wrong, self._missing = here, mode == "infer", wrong, missing
        self._rows: list[Row] = _rows(here)
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown("**Targets**", width="content")
            with st.container(horizontal=True, width="content", gap="small"):
                self._more = st.empty()
                self._presets()
        self._names: list[Any] = []
        self.chosen = tuple(self._target(index, row) for index, row in enumerate(self._rows))
        wrong.here("targets")

    def _presets(self) -> None:
        possible = [name for name, preset in PRESETS.items() if preset.make(self._here.facts)]
        st.menu_button(
            "Target presets", possible, format_func=lambda name: plain(PRESETS[name].title), key="form_presets",
            icon=":material/auto_awesome_motion:", help=PRESET_HELP, on_click=_put, args=(self._here,),
        )  # fmt: skip

    def _target(self, index: int, row: Row) -> dict[str, Any]:
        unfolded, alone = len(self._rows) <= OPEN, len(self._rows) == 1
        with st.container(gap="xsmall"):
            with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
                with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                    self._names.append(st.empty())
                    if index == 0 and not alone:
                        st.badge(BASELINE, color="grey", help=BASELINE_HELP)
                label = f"{'More' if unfolded else 'Change'}{of_target(index)}"
                folded = st.popover(label, icon=":material/tune:", type="tertiary")
            values = self._fields(row, of_target(index), folded, st.container() if unfolded else folded)
            if not alone:
                folded.button(f"Remove{of_target(index)}", icon=":material/close:", key=f"form_remove_{row.number}",
                              on_click=_remove, args=(row.number,))  # fmt: skip
            self._wrong.here(f"target {index}")
        return values

    def _fields(self, row: Row, of: str, folded: Any, place: Any) -> dict[str, Any]:
        """Draw framework, precision, steps and call ``folded``, and device, threads and execution in the ``place``."""
        name, default, here = str(row.number), row.default, self._here
        with folded:
            framework = self._framework(name, default, of)
            more = st.container()
        with place, st.grid(3, min_column_width=110, gap="small", vertical_alignment="bottom"):
            device = device_field(name, default, here, framework, of)
            threads = threads_field(name, default, device, of)
            execution = execution_field(name, default, framework, of)
        with more:
            precision = precision_field(name, default, here, framework, device, of, infers=self._infers)
            steps = steps_field(name, default, framework, execution, of)
            call = call_field(name, default, framework, of, infers=self._infers, several=self._several)
            pad = pad_field(name, default, of, several=self._several)
        return {
            "framework": framework.name, "device": device, "threads": threads, "precision": precision,
            "execution": execution, "steps_per_execution": steps, "call": call,
            "pad": pad,
        }  # fmt: skip

    def _framework(self, name: str, default: Target, of: str) -> Framework:
        def words(framework: str) -> str:
            title = FRAMEWORKS[framework].title
            return f"{title} (not installed)" if framework in self._missing else title

        chosen = st.selectbox(
            f"Framework{of}", OFFERED, index=OFFERED.index(default.framework), key=f"form_framework_{name}",
            format_func=lambda name: plain(words(name)), persist_state=KEEP,
            help="What computes the step. All but TensorFlow and LiteRT are installed by a file of their own; the "
            "same network is measured on each.",
        )  # fmt: skip
        return FRAMEWORKS[chosen]

    def finish(self, made: Sequence[Target | None], workload: Workload | None) -> None:
        """Show each target's name, and offer one more."""
        known = [target for target in made if target is not None]
        names = iter(shown_names(known))
        for number, (slot, target) in enumerate(zip(self._names, made, strict=True), start=1):
            if target is None:
                slot.markdown(f"**Target {number:d}**")
            else:
                slot.markdown(f"**{plain(sentence_case(next(names)))}**", help=plain(str(target)))
        if len(self._rows) < MAX_TARGETS:
            new = another(known, self._here.facts, workload)
            self._more.button("Add a target", icon=":material/add:", key="form_add", on_click=_add, args=(new,))
        else:
            self._more.caption(f"{MAX_TARGETS:d} targets are the most.")


def _rows(here: machine.Machine) -> list[Row]:
    """Return this session's targets; initially this machine's defaults."""
    if ROWS not in st.session_state:
        _renew(here.compared_targets())
    rows: list[Row] = st.session_state[ROWS]
    return rows


def put_targets(targets: Sequence[Target], here: machine.Machine) -> None:
    """Set the form's targets. Raises UserError if this machine cannot offer one of them."""
    for target in targets:
        if target.framework not in OFFERED:
            raise UserError(f"framework={target.framework} is for the command line")
        if target.replicas > 1:
            raise UserError(f"several devices, such as {target.device}, are for Scaling and the command line")
        if target.device not in here.reached_by(FRAMEWORKS[target.framework]):
            raise UserError(
                f"this machine has no {device_words(target.device)} for {FRAMEWORKS[target.framework].title}"
            )
        if target.steps_per_execution not in STEPS_PER_EXECUTION:
            raise UserError(f"the form has no {target.steps_per_execution} steps per execution")
    _renew(targets)


def _renew(targets: Sequence[Target]) -> None:
    st.session_state[ROWS] = []
    for target in targets:
        _add(target)


def _add(target: Target) -> None:
    number = st.session_state.get(NEWEST, -1) + 1
    st.session_state[NEWEST] = number
    st.session_state[ROWS] = [*st.session_state[ROWS], Row(number, target)]


def _remove(number: int) -> None:
    st.session_state[ROWS] = [row for row in st.session_state[ROWS] if row.number != number]


def _put(here: machine.Machine) -> None:
    """Set the targets of the chosen preset, and its mode."""
    preset = PRESETS[st.session_state["form_presets"]]
    _renew(preset.make(here.facts))
    if preset.mode is not None:
        st.session_state["form_mode"] = preset.mode
