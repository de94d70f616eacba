"""Serving: which request rate each target carries at a promised latency."""

import streamlit as st

from core.studies.serving.service import Service
from core.ui import frame, navigation, shown_run
from core.ui.hardware import modelled
from core.ui.serving import form, measured, result

HEADING = "Which request rate does each target carry?"

navigation.guard()
head = st.container()
run = shown_run.run(infers=True)
modelled.offer(run)
titles = dict(zip(run.target_names, run.names, strict=True))
if (card := modelled.chosen()) is not None:
    titles[card.name] = f"{card.name} (modelled)"
read = form.addressed if st.context.is_embedded else form.choices
service, prices = read(titles, Service.of(run))
if service is None:
    with head:
        frame.top(HEADING, subject=run.name)
    st.stop()
frame.show_parts(HEADING, lambda: result.Result(run, service, prices, card), head, subject=run.name)
measured.show(run, service)
if not st.context.is_embedded:
    navigation.link("crossover", run=run.id)
