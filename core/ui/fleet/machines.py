"""Machines as rows: their state, its reason, and a link to their run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from core.numbers import counted, duration
from core.studies.fleet.record import FleetMachine, FleetStudy
from core.studies.sweep.condensed import CondensedRun
from core.text import sentence_case
from core.ui.tables import cleaned

ROW_PX, HEAD_PX, SHOWN_ROWS = 35, 38, 12
OF_RAY = "ray.io/"
"""Prefix of Ray's own labels, which mean nothing to a reader; the record holds them."""


def summary(machines: tuple[FleetMachine, ...]) -> str:
    """Return text such as ``7 of 12 machines finished, 3 lost, 2 refused.``"""
    counts = Counter(machine.state for machine in machines)
    finished = counts.pop("finished", 0)
    others = [f"{count:,} {state}" for state, count in counts.most_common()]
    first = f"{finished:,} of {counted(len(machines), 'machine')} finished"
    return f"{', '.join([first, *others])}."


def machines_table(study: FleetStudy, curves: Mapping[str, CondensedRun]) -> pd.DataFrame:
    """Return one row per machine, unfinished ones first."""
    rows = [_row(machine, curves.get(machine.run_id or "")) for machine in study.machines]
    table = pd.DataFrame(rows, columns=["machine", "state", "why", "hardware", "labels", "rounds", "time", "run"])
    return table.sort_values("state", key=lambda states: states == "Finished", kind="stable")


def _row(machine: FleetMachine, run: CondensedRun | None) -> dict[str, object]:
    again = f" ({machine.starts} starts)" if machine.starts > 1 else ""
    return {
        "machine": machine.name,
        "state": sentence_case(machine.state) + again,
        "why": machine.reason,
        "hardware": "" if run is None else run.hardware,
        "labels": ", ".join(f"{name}={value}" for name, value in machine.labels.items() if not name.startswith(OF_RAY)),
        "rounds": machine.rounds if run is None else run.rounds,
        "time": "" if run is None else duration(run.elapsed_s),
        "run": None if machine.run_id is None else f"/crossover?run={machine.run_id}",
    }


def show(study: FleetStudy, curves: Mapping[str, CondensedRun], key: str) -> None:
    """Show the table; a machine's own run opens from its row."""
    text, table = st.column_config.TextColumn, machines_table(study, curves)
    st.dataframe(
        cleaned(table), hide_index=True, key=key, height=HEAD_PX + ROW_PX * min(SHOWN_ROWS, max(1, len(table))),
        alt="One row a machine with its state, and why it waits or has no complete run.",
        column_config={
            "machine": text("Machine", pinned=True), "state": text("State", width=110), "why": text("Why", width=300),
            "hardware": text("Hardware", width=260), "labels": text("Labels"),
            "rounds": st.column_config.NumberColumn("Rounds", format="localized", width=70), "time": text("Time"),
            "run": st.column_config.LinkColumn("Its run", display_text="Open", width=80),
        },
    )  # fmt: skip
