"""Batch: which batch to train with, from throughput, the gradient noise scale, memory and cost."""

import streamlit as st

from core.ui import frame, money, navigation, registry, shown_run
from core.ui.batch import form, memory_result, page, result
from core.ui.words import plain

HEADING = "Which batch should we train with?"

navigation.guard()
run = shown_run.run()
answer = registry.answer_of(run)
if answer is None:
    frame.top(HEADING)
    st.info("No round was measured in this run, so there is nothing to choose from.", icon=":material/info:")
    st.stop()

head = st.container()
embedded = st.context.is_embedded
if not embedded:
    money.put()
    if (active := page.running()) is not None:
        active.progress()
    else:
        for study_page in page.PAGES:
            study_page.failure()
studies = page.evidence(run)
prices = form.prices(run, studies.noise[1] if studies.noise is not None else None)
try:
    batches = page.answer_of(run, answer, studies, prices.prices, prices.epoch_samples)
except ValueError as error:
    with head:
        frame.top(HEADING)
    st.error(plain(str(error)), icon=":material/error:")
    st.stop()
if not embedded:
    result.measure(run, batches)
frame.show(
    HEADING,
    lambda: result.card(run, studies, batches),
    lambda: result.main_picture(run, studies, batches),
    head=head,
    notes=lambda: result.notices(run, studies, batches),
    evidence={
        "The answer in full": lambda: result.in_full(batches),
        "Throughput and time per sample": lambda: result.rates(run, studies, batches),
        "Gradient noise scale": lambda: result.noise(run, studies, batches),
        "Memory": lambda: memory_result.show(run, studies),
        "Cost": lambda: result.cost(run, studies, batches, prices),
        "Every number": lambda: result.numbers(run, studies, batches),
    },
    share=lambda: result.sharing(run, studies, batches),
)
if not embedded:
    navigation.link("crossover", run=run.id)
