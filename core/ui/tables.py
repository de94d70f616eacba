"""Tables that pages show, as pandas frames. Pure: no Streamlit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

import pandas as pd
import streamlit as st

from core.base.evidence import Environment
from core.base.text import clean, sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.rounds.show.export import CellRow, cell_rows
from core.store import Summary
from core.studies.sweep.kind import SWEEP
from core.ui.words import OUTCOMES, STOPS, plain
from core.workload.names import notations, side_by_side


def cleaned(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all texts for ``st.dataframe``, which has no markup."""
    return _each_text(table, clean)


def written(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all texts escaped for ``st.table``, which renders Markdown."""
    return _each_text(table, plain)


def static_table(rows: Any, columns: list[str] | tuple[str, ...] | None = None) -> None:
    """Draw a table without sorting or selection; ``rows`` is what a data frame is made of."""
    st.table(written(pd.DataFrame(rows, columns=columns)), border="horizontal", hide_index=True)


def _each_text(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    def changed(value: object) -> object:
        return change(value) if isinstance(value, str) else value

    texts = [name for name in table if pd.api.types.is_string_dtype(table[name]) or table[name].dtype == object]
    return table.assign(**{str(name): table[name].map(changed) for name in texts})


SHARES = {
    "overhead_pct": "overhead_share_fitted",
    "difference_pct": "output_difference_mean",
    "largest_difference_pct": "output_difference_largest",
    "same_class_pct": "same_class_share",
}
"""Columns in percent, and their source columns with shares."""


def cells_table(run: Run, answer: Answer | None) -> pd.DataFrame:
    """Return one row per cell, as :class:`core.rounds.show.export.CellRow`, with outcomes in words and memory in MB.

    ``name`` is the target's name for people.
    """
    table = pd.DataFrame([asdict(row) for row in cell_rows(run, answer)], columns=[f.name for f in fields(CellRow)])
    table["name"] = table["target"].map(lambda target: sentence_case(run.name_of(target)))
    table["outcome"] = table["outcome"].map(lambda code: OUTCOMES.get(code, code))
    table["stop_reason"] = table["stop_reason"].map(lambda code: STOPS.get(code, code))
    table["memory_mb"] = table.pop("memory_peak_bytes") / 1e6
    for percent, share in SHARES.items():
        table[percent] = 100 * table.pop(share).astype(float)
    return table


def history_table(summaries: Sequence[Summary], kinds: Sequence[str]) -> pd.DataFrame:
    """Return one row per study, newest first; ``kinds`` are their kinds in words. Only sweeps have rounds.

    The name that a sweep gets by itself repeats network and targets, so it is left out.
    """
    rounds = [s.rounds if s.kind == SWEEP.name else None for s in summaries]
    return pd.DataFrame(
        {
            "verdict": [_said(s) for s in summaries],
            "network": [s.network for s in summaries],
            "targets": [side_by_side(notations(tuple(filter(None, s.target_names)))) for s in summaries],
            "name": ["" if s.kind == SWEEP.name and s.name == s.title else s.name for s in summaries],
            "machine": [s.machine for s in summaries],
            "created": pd.to_datetime([s.created_at for s in summaries], errors="coerce", utc=True, format="ISO8601"),
            "kind": list(kinds),
            "label": [s.label for s in summaries],
            "tags": [", ".join(s.tags) for s in summaries],
            "rounds": pd.array(rounds, dtype="Int64"),
        }
    )


def _said(summary: Summary) -> str:
    """Return the verdict, after the status of a study that did not finish."""
    if summary.status == "running":
        return "Being measured"
    ended = "" if summary.status == "finished" else sentence_case(summary.status)
    return ". ".join(filter(None, (ended, summary.verdict)))


def environment_table(environment: Environment) -> pd.DataFrame:
    """Return the facts known about a machine, one per row."""
    return pd.DataFrame(environment.facts, columns=["fact", "value"])
