"""Batch: which batch to train with, from throughput, the gradient noise scale, memory and cost."""

import streamlit as st

from core.ui import navigation, opened, registry
from core.ui.batch import form, memory_result, page, result
from core.ui.study_page import watch
from core.ui.words import plain

navigation.guard()
run = opened.run()
answer = registry.answer_of(run)
embedded = st.context.is_embedded
if not embedded:
    st.header(f"Which batch should we train with? {plain(run.name)}", anchor=False)
if answer is None:
    st.info("No round was measured in this run, so there is nothing to choose from.", icon=":material/info:")
    st.stop()

if not embedded:
    if (active := page.running()) is not None:
        active.progress()
    else:
        for study_page in page.PAGES:
            study_page.failure()
        watch()
studies = page.evidence(run)
prices = form.prices(run, studies.noise[1] if studies.noise is not None else None)
try:
    batches = page.answer_of(run, answer, studies, prices.prices, prices.epoch_samples)
except ValueError as error:
    st.error(plain(str(error)), icon=":material/error:")
    st.stop()

result.card(run, studies, batches)
if embedded:
    result.main_picture(run, studies, batches)
    st.stop()


def choice() -> None:
    result.notices(studies, batches)
    result.pictures(run, studies, batches)
    if studies.noise is None:
        result.noise(run, studies, batches)


navigation.tabs(
    "batch_tab",
    {
        "Batch": choice,
        "Noise scale": lambda: result.noise(run, studies, batches),
        "Memory": lambda: memory_result.show(run, studies),
        "Cost": lambda: result.cost(run, studies, batches, prices),
        "Every number": lambda: result.numbers(run, studies, batches),
    },
)
result.export_and_share(run, studies, batches)
navigation.link("crossover", run=run.id)
