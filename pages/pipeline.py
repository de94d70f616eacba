"""Pipeline: how much of a step the input takes, which prefetch is enough, from which cost on the device starves."""

import streamlit as st

from core.ui import live, navigation, pipeline, pipeline_form, pipeline_result

navigation.guard()
found = pipeline.shown()
if st.context.is_embedded:
    if found is not None:
        pipeline_result.show(*found)
    st.stop()

st.header("Does the input pipeline keep up with the device?", anchor=False)
left, right = st.columns([7, 5], gap="large")
running = pipeline.running() is not None
with right:
    study = pipeline_form.show(live.busy_sentence())
with left:
    if running:
        pipeline.progress()
    else:
        pipeline.failed()
        pipeline.watch()
    if found is not None and not running:
        pipeline.explain_example(found[1])
        pipeline_result.show(*found)
    if found is None or running or pipeline.is_example(found[1]):
        pipeline.before(study)
