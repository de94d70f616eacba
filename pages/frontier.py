"""Frontier: how deep, how wide or how large in batch it must be before the second target pays."""

import streamlit as st

from core.ui import frontier, frontier_form, frontier_result, live, navigation

navigation.guard()
found = frontier.shown()
if st.context.is_embedded:
    if found is not None:
        frontier_result.show(*found)
    st.stop()

st.header("How big must the model be before the second target pays?", anchor=False)
left, right = st.columns([7, 5], gap="large")
running = frontier.running() is not None
with right:
    plan = frontier_form.show(live.busy_sentence())
with left:
    if running:
        frontier.progress()
        frontier_result.so_far()
    else:
        frontier.failed()
        frontier.watch()
    if found is not None and not running:
        frontier.explain_example(found[1])
        frontier_result.show(*found)
    if found is None or running or frontier.is_example(found[1]):
        frontier.before(plan)
