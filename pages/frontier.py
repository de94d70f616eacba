"""Frontier: at which depth, width and batch one target is faster than the other."""

import streamlit as st

from core.ui import navigation
from core.ui.frontier import form, page, result
from core.ui.study_page import busy_sentence

navigation.guard()
PAGE = page.PAGE
shown = PAGE.shown()
if st.context.is_embedded:
    if shown is not None:
        result.show(*shown)
    st.stop()


def measure() -> None:
    """The next study: its button and choices, folded where there is a result."""
    with st.expander("Measure this machine: choices of the next study", expanded=shown is None):
        page.before(form.show(busy_sentence()))


def before() -> None:
    """Why the last study has no result, and what measures the next one."""
    PAGE.idle()
    if shown is not None and PAGE.is_example(shown[0]):
        st.caption(f"A finished example, recorded on another machine. “{PAGE.button}” measures this one.")
    measure()


if shown is None or PAGE.running() is not None:
    st.title(result.QUESTION, anchor=False)
    if PAGE.running() is None:
        before()
    else:
        PAGE.progress()
        result.so_far()
        measure()
else:
    result.show(*shown, before)
