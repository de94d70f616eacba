"""Frontier: at which depth, width and batch one target is faster than the other."""

import streamlit as st

from core.ui import frame, navigation
from core.ui.frontier import form, page, result

navigation.guard()
PAGE, head = page.PAGE, st.container()
shown = PAGE.shown()
if st.context.is_embedded:
    if shown is not None:
        result.show(*shown)
    st.stop()
own = shown is not None and not PAGE.is_example(shown[0])
running = PAGE.running() is not None
if shown is None or running:
    with head:
        frame.top(result.QUESTION)
if running:
    PAGE.progress()
    result.so_far()
    PAGE.measure(form.show, page.before)
else:
    PAGE.measure(form.show, None if own else page.before, example=shown is not None and not own)
    PAGE.failure()
    if shown is not None:
        result.show(*shown, head)
