"""A run as files. Each is made only when its button is pressed."""

from __future__ import annotations

from functools import partial

import streamlit as st

from core.export import cells_csv, rounds_csv, run_json
from core.results import Run
from core.ui import registry


def buttons(run: Run) -> None:
    """JSON, rounds and cells as CSV, and a report that opens without a network."""
    files = {
        "json": ("JSON", "Everything, to be imported elsewhere.", "application/json"),
        "rounds.csv": ("Rounds (CSV)", "Every block of every round.", "text/csv"),
        "cells.csv": ("Cells (CSV)", "The statistics of each cell.", "text/csv"),
        "html": ("Report (HTML)", "One file with charts that opens offline and sends nothing.", "text/html"),
    }
    for suffix, (label, meaning, mime) in files.items():
        st.download_button(
            label, data=partial(content, run, suffix), file_name=f"breakeven-{run.id}.{suffix}",
            mime=mime, help=meaning, icon=":material/download:", on_click="ignore", key=f"download-{suffix}",
        )  # fmt: skip


def content(run: Run, suffix: str) -> bytes:
    """The file with that suffix."""
    answer = registry.answer_of(run)
    if suffix == "json":
        return run_json(run).encode()
    if suffix == "rounds.csv":
        return rounds_csv(run).encode()
    if suffix == "cells.csv":
        return cells_csv(run, answer).encode()
    from core.report import html_report

    return html_report(run, answer).encode()
