"""A run as files. Each is made only when its button is pressed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from core.studies.sweep.answer import Answer
from core.studies.sweep.card_export import cards_csv
from core.studies.sweep.export import cells_csv, rounds_csv, run_json
from core.studies.sweep.record import Run
from core.ui import registry


def buttons(run: Run) -> None:
    """JSON, rounds and cells as CSV, and a report that opens without a network."""
    for suffix, (label, meaning, mime, _) in FILES.items():
        st.download_button(
            label, data=partial(content, run, suffix), file_name=f"breakeven-{run.id}.{suffix}",
            mime=mime, help=meaning, icon=":material/download:", on_click="ignore", key=f"download-{suffix}",
        )  # fmt: skip


def content(run: Run, suffix: str) -> bytes:
    """The file with that suffix."""
    return FILES[suffix][-1](run, registry.answer_of(run)).encode()


def _report(run: Run, answer: Answer | None) -> str:
    from core.studies.sweep.report import html_report  # takes long to load

    return html_report(run, answer)


FILES: dict[str, tuple[str, str, str, Callable[[Run, Answer | None], str]]] = {
    "json": ("JSON", "Everything, to be imported elsewhere.", "application/json", lambda run, _: run_json(run)),
    "rounds.csv": ("Rounds (CSV)", "Every block of every round.", "text/csv", lambda run, _: rounds_csv(run)),
    "cells.csv": ("Cells (CSV)", "The statistics of each cell.", "text/csv", cells_csv),
    "gpu.csv": (
        "GPU and energy (CSV)", "What the GPU did at each batch, and joules a sample.", "text/csv",
        lambda run, _: cards_csv(run),
    ),
    "html": ("Report (HTML)", "One file with charts that opens offline and sends nothing.", "text/html", _report),
}  # fmt: skip
"""By suffix: label, meaning, media type, and what makes it."""
