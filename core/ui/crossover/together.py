"""Two targets at once: the most that sharing a batch between a CPU and a GPU could gain, in words and a picture."""

from __future__ import annotations

from functools import partial

import streamlit as st

from core.rounds.answer.split import split_lines, together
from core.rounds.run import Run
from core.rounds.show.split_figure import split_figure
from core.ui import charts, registry
from core.ui.words import plain


def show(run: Run, image: str) -> None:
    """Show the gain for a run with a CPU and an accelerator (:func:`core.rounds.answer.split.pairs_of`)."""
    key = registry.revision(run)
    found = registry.once(("together", *key), partial(together, run))
    if found is None:
        st.caption("Too few batch sizes: none that was measured can be divided into two that were measured, too.")
        return
    first, *more = split_lines(run, found)
    st.markdown(plain(first))
    for line in more:
        st.caption(plain(line))
    if found.with_interval:
        make, alt = partial(split_figure, run, found), f"Both targets at once, by batch size. {first}"
        charts.show("together", make, alt, f"{run.id}-together", key, image=image, border=False)
