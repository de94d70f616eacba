"""Frontier: at which depth, width and batch one target is faster than the other."""

import streamlit as st

from core.ui import frame, navigation
from core.ui.frontier import form, page, result

navigation.guard()
PAGE = page.PAGE
shown = PAGE.shown()
if st.context.is_embedded:
    if shown is not None:
        result.show(*shown)
    st.stop()
own = shown is not None and not PAGE.is_example(shown[0])


def before() -> None:
    """What measures the next study, and why the last one has no result."""
    PAGE.measure(form.show, None if own else page.before)
    PAGE.idle()
    if shown is not None and not own:
        st.caption("A finished example, recorded on another machine.")


if PAGE.running() is not None:
    frame.top(result.QUESTION)
    PAGE.progress()
    result.so_far()
    PAGE.measure(form.show, page.before)
elif shown is None:
    frame.top(result.QUESTION)
    before()
else:
    result.show(*shown, before)
