"""Diagnosis: what would make one target of a run faster, tried and measured on this machine."""

import streamlit as st

from core.ui import diagnosed, diagnosis, navigation, opened, registry, verdict

navigation.guard()
run = opened.run()
if st.context.is_embedded:
    found = diagnosis.shown(run)
    if found is None:
        st.info("This run has no diagnosis yet.", icon=":material/stethoscope:")
    else:
        diagnosed.show(run, *found)
    st.stop()

answer = registry.answer_of(run)
why = diagnosis.refusal(run, answer)
running = diagnosis.running() is not None
st.header(f"What would help? {verdict.plain(run.name)}", anchor=False)
request = diagnosis.form(run, answer, why)
if running:
    diagnosis.progress()
else:
    diagnosis.failed()
    diagnosis.watch()

found = diagnosis.shown(run)
if found is None:
    diagnosis.before(run, request)
else:
    diagnosed.show(run, *found)
st.page_link("pages/crossover.py", label="The verdict of this run and its charts", icon=":material/line_axis:",
             query_params={"run": run.id})  # fmt: skip
