"""Terms and rules on the Method page, from docs/terms.md and docs/method.md."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.ui.method_text import LABELS, RULES, TERMS


def labels() -> None:
    """Show the meaning of the labels beside every number."""
    with st.container(border=True):
        for label, meaning in LABELS.items():
            st.markdown(f"**{label}** {meaning}")


def words() -> None:
    """Show every term of pages, reports and commands, with its meaning."""
    rows = [(f"**{each.term}**", each.meaning, each.unit) for each in TERMS]
    table = pd.DataFrame(rows, columns=["Word", "Meaning", "Unit"])
    st.table(table, border="horizontal", hide_index=True)


def rules() -> None:
    """Show a box for each rule of measurement."""
    with st.grid(2, min_column_width=420, gap="small"):
        for number, (title, sentence) in enumerate(RULES, start=1):
            with st.container(border=True, height="stretch"):
                st.markdown(f"**{number}. {title}**  \n{sentence}")
