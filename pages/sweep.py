"""Sweep: choose a network and one to six targets, measure this machine, watch the answer appear."""

import streamlit as st

from core.ui import css, navigation, neighbours
from core.ui.hardware import modelled
from core.ui.study_page import busy_sentence
from core.ui.sweep import form, live

navigation.guard(measures=True)
st.title("Which target is the fastest, and from which batch size on?", anchor=False)

if live.PAGE.running() is not None:
    live.PAGE.progress()
    live.estimate(modelled.shown)
    with st.expander("Choices of the next sweep", icon=":material/tune:"):
        form.show(busy_sentence(), modelled.FORM_FIELD)
else:
    top = st.container(horizontal=True, vertical_alignment="center")
    with st.container(key=css.ANSWER_FIRST):
        chosen, shown = st.columns([6, 7], gap="medium")
    with chosen:
        neighbours.warn()
        form.show(busy_sentence(), modelled.FORM_FIELD, top)
    with shown:
        live.stopped()
        live.PAGE.failure()
        live.latest(modelled.shown, modelled.address())
