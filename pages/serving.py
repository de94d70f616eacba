"""Serving: which request rate each target carries at a promised latency."""

import streamlit as st

from core.ui import frame, navigation, shown_run
from core.ui.serving import form, result

HEADING = "Which request rate does each target carry?"

navigation.guard()
head = st.container()
run = shown_run.run(infers=True)
service, prices = form.addressed(run) if st.context.is_embedded else form.choices(run)
if service is None:
    with head:
        frame.top(HEADING, subject=run.name)
    st.stop()
frame.show_parts(HEADING, lambda: result.Result(run, service, prices), head, subject=run.name)
if not st.context.is_embedded:
    navigation.link("crossover", run=run.id)
