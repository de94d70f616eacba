"""Batch: which batch to train with, from throughput, the gradient noise scale, memory and cost."""

import streamlit as st

from core.ui import batch, batch_form, batch_result, memory_result, navigation, opened, registry, verdict

navigation.guard()
run = opened.run()
answer = registry.answer_of(run)
embedded = st.context.is_embedded
if not embedded:
    st.header(f"Which batch should we train with? {verdict.plain(run.name)}", anchor=False)
if answer is None:
    st.info("No round was measured in this run, so there is nothing to choose from.", icon=":material/info:")
    st.stop()

if not embedded:
    if batch.running() is not None:
        batch.progress()
    else:
        batch.failed()
        batch.watch()
found = batch.evidence(run)
prices = batch_form.prices(run, found.noise[1] if found.noise is not None else None)
try:
    told = batch.answer_of(run, answer, found, prices.prices, prices.epoch_samples)
except ValueError as error:
    st.error(verdict.plain(str(error)), icon=":material/error:")
    st.stop()

batch_result.card(run, found, told)
if embedded:
    batch_result.main_picture(run, found, told)
    st.stop()

batch_tab, noise_tab, memory_tab, cost_tab, numbers_tab = st.tabs(
    ["Batch", "Noise scale", "Memory", "Cost", "Every number"], key="batch_tab", on_change="rerun"
)
if batch_tab.open:
    with batch_tab:
        batch_result.notices(found, told)
        batch_result.pictures(run, found, told)
        if found.noise is None:
            batch_result.noise(run, found, told)
if noise_tab.open:
    with noise_tab:
        batch_result.noise(run, found, told)
if memory_tab.open:
    with memory_tab:
        memory_result.show(run, found)
if cost_tab.open:
    with cost_tab:
        batch_result.cost(run, found, told, prices)
if numbers_tab.open:
    with numbers_tab:
        batch_result.numbers(run, found, told)
batch_result.take_along(run, found, told)
st.page_link("pages/crossover.py", label="The verdict of this run and its charts", icon=":material/line_axis:",
             query_params={"run": run.id})  # fmt: skip
