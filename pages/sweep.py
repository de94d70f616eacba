"""Sweep: choose a workload and one to six targets, measure this machine, watch the answer appear."""

import streamlit as st

from core.ui import navigation
from core.ui.hardware import modelled
from core.ui.study_page import busy_sentence
from core.ui.sweep import form, live

navigation.guard(measures=True)
st.header("Which target is the fastest, and from which batch size on?", anchor=False)

shown, chosen = st.columns([7, 5], gap="large")
with chosen:
    form.show(busy_sentence())
with shown:
    live.stopped()
    if live.PAGE.running() is not None:
        live.PAGE.progress()
        live.estimate(modelled.shown)
    else:
        live.PAGE.idle()
        live.latest(modelled.shown, modelled.address())
