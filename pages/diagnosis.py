"""Diagnosis: what would make one target of a run faster, tried and measured on this machine."""

import streamlit as st

from core.ui import navigation, opened, registry
from core.ui.diagnosis import page, result
from core.ui.words import plain

navigation.guard()
run = opened.run()
if st.context.is_embedded:
    asked = page.PAGE.address in st.query_params
    found = page.PAGE.shown(run.id)
    if found is None and not asked:
        st.info("This run has no diagnosis yet.", icon=":material/stethoscope:")
    if found is not None:
        result.show(run, *found)
    st.stop()

answer = registry.answer_of(run)
why = page.refusal(run, answer)
st.header(f"What would help? {plain(run.name)}", anchor=False)
plan = page.form(run, answer, why)
if page.PAGE.running() is not None:
    page.PAGE.progress()
else:
    page.PAGE.idle()

found = page.PAGE.shown(run.id)
if found is None:
    page.before(run, plan)
else:
    result.show(run, *found)
navigation.link("crossover", run=run.id)
