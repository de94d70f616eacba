"""Earlier measurements of the same sweep on this machine: a note on their agreement, and a table of runs."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pandas as pd
import streamlit as st

from core.numbers import interval_words, moment
from core.schema import UserError
from core.studies.sweep.comparison import MAX_COMPARED
from core.studies.sweep.record import Run
from core.studies.sweep.repeats import Repeats, is_repeat, occasion, repeats, sentences
from core.ui import navigation, registry
from core.ui.tables import written
from core.ui.words import plain

MOST = 5
"""Maximum number of other runs read for a page; each takes some 20 ms."""


def of(run: Run) -> Repeats:
    """Return the run and the newest others of the same plan on the same machine, measured before or after it."""
    alike = [
        summary
        for summary in registry.summaries()
        if (summary.title, summary.target_names) == (run.title, run.target_names)
        and summary.label == "measured" and summary.rounds and summary.status != "running" and summary.id != run.id
    ]  # fmt: skip
    key = "repeats", *registry.revision(run), *((other.id, other.rounds) for other in alike[:MOST])
    return registry.once(key, partial(_read, run, [other.id for other in alike[:MOST]]))


def _read(run: Run, others: list[str]) -> Repeats:
    found = [run]
    for other in others:
        with suppress(UserError):  # a damaged one reports it where it is opened
            if is_repeat(run, read := registry.find_run(other)):
                found.append(read)
    return repeats([occasion(one, registry.answer_of(one)) for one in found])


def note(run: Run) -> None:
    """Show what all of them agree on; nothing for a sweep that was measured once."""
    if run.label != "measured":
        return
    if said := sentences(of(run)):
        st.caption(f":material/history: {plain(' '.join(said))}")


def table(found: Repeats) -> None:
    """Show each run, newest first, and a link that compares their curves."""
    rows = [
        {
            "Measured": moment(one.run.created_at),
            "Run": one.run.name,
            "Crossover": "not one that is clear" if one.crossover is None
            else interval_words(one.crossover.batch, one.crossover.low, one.crossover.high),
        }
        for one in found.occasions
    ]  # fmt: skip
    st.table(written(pd.DataFrame(rows)))
    ids = [one.run.id for one in found.occasions][:MAX_COMPARED]
    navigation.link("history", "Compare these runs", ":material/difference:", compare=",".join(ids))
