"""Sweep: choose a workload and two targets, measure this machine, watch the answer appear."""

import streamlit as st

from core.ui import form, live, modelled, navigation

navigation.guard()
st.header("From which batch size on does the second target win?", anchor=False)

shown, chosen = st.columns([7, 5], gap="large")
running = live.active() is not None
with chosen:
    form.show(live.busy_sentence())
with shown:
    live.interrupted()
    if running:
        live.progress()
        live.estimate(modelled.shown)
    else:
        live.ended()
        live.latest(modelled.shown, modelled.address())
        live.watch()
