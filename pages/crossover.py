"""Crossover: the verdict of one run first, then its charts, then how it was measured."""

import streamlit as st

from core.ui import charts, downloads, evidence, navigation, opened, registry, share, verdict
from core.ui.hardware import modelled, published
from core.ui.words import plain

navigation.guard()
run = opened.run()
answer = registry.answer_of(run)

if not st.context.is_embedded:
    st.header(plain(run.name), anchor=False)
verdict.card(run, answer, notices_shown=1 if st.context.is_embedded else 3)
if answer is not None:
    modelled.offer(run)
card = modelled.shown(run, answer)
if answer is not None and st.context.is_embedded:
    charts.grid(("speed-up", "step time"), run, answer, card=card)
elif answer is not None:
    image = charts.image_choice("image")
    charts.grid(charts.kinds_of(run), run, answer, image=image, card=card)
    with st.container(horizontal=True):
        if run.label == "published":
            published.to_gallery("All published curves, with the model beside them")
        else:
            for page in ("diagnosis", "batch", "hardware"):
                navigation.link(page, run=run.id)

if not st.context.is_embedded:
    st.subheader("Cells", anchor=False)
    evidence.cells(run, answer)
    if answer is not None:
        evidence.fits(run, answer)
        if run.label != "published":
            evidence.how_swept(run, answer)
    share.heading()
    share.links({"run": run.id, **modelled.address()})
    with st.container(horizontal=True):
        downloads.buttons(run)
