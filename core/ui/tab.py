"""The browser's tab: the program's icon, and a title that says which page it is and what it shows."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.text import clean

ICON = Path(__file__).with_name("icon.png")  # a name such as ":material/…:" would be fetched from Google's servers
PAGE = "tab_page"


def of(page: str) -> None:
    """The tab is that page's. Before :func:`st.navigation`, which else would make its icon the tab's."""
    st.session_state[PAGE] = page
    st.set_page_config(page_title=f"{page} · Breakeven", page_icon=ICON, layout="wide")


def shows(name: str) -> None:
    """The tab also says what is shown on the page, a run or a study."""
    st.set_page_config(page_title=clean(f"{name} · {st.session_state.get(PAGE, '')} · Breakeven"))
