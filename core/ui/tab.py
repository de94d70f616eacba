"""The browser tab: the program's icon, and a title with the page and its study."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.text import clean

ICON = Path(__file__).with_name("icon.png")  # a name such as ":material/…:" would be fetched from Google's servers
PAGE = "tab_page"


def of(page: str) -> None:
    """Set the tab to that page, before :func:`st.navigation`, which would otherwise set its own icon."""
    st.session_state[PAGE] = page
    st.set_page_config(page_title=f"{page} · Breakeven", page_icon=ICON, layout="wide")


def shows(name: str) -> None:
    """Add the name of the shown run or study to the tab's title."""
    st.set_page_config(page_title=clean(f"{name} · {st.session_state.get(PAGE, '')} · Breakeven"))
