"""Overhead: where the step of one target goes, traced beside fitted, down to one step and its kernels."""

import streamlit as st

from core.ui import navigation, opened, overhead, registry, tracing, verdict

navigation.guard()
run = opened.run()
answer = registry.answer_of(run)
embedded = st.context.is_embedded

if not embedded:
    st.header(verdict.plain(run.name), anchor=False)
with st.container(horizontal=True, vertical_alignment="bottom"):
    target = overhead.target_of(run)
    cell = overhead.cell_of(run, target, answer)
fit = answer.fits[target] if answer is not None else None

if cell is None:
    overhead.nothing_traced(run, target)
else:
    if not embedded:
        overhead.card(run, cell, fit)
    overhead.shares(run, target, fit)
    overhead.timeline(run, cell)
    if not embedded:
        overhead.explanation(cell, fit)
        overhead.kernels(run, cell)
        overhead.host_operations(run, cell)
if not embedded:
    tracing.show(run, target)
    st.subheader("Take it along", anchor=False)
    opened.links(run)
