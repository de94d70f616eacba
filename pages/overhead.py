"""Overhead: where the step of one target goes, traced beside fitted, down to one step and its kernels."""

import streamlit as st

from core.ui import navigation, opened, registry, share
from core.ui.overhead import doing, page, tracing
from core.ui.words import plain

navigation.guard()
run = opened.run()
answer = registry.answer_of(run)
embedded = st.context.is_embedded

if not embedded:
    st.header(plain(run.name), anchor=False)
    page.untraced(run)
with st.container(horizontal=True, vertical_alignment="bottom"):
    target = page.target_of(run)
    cell = page.cell_of(run, target, answer)
fit = answer.fits[target] if answer is not None else None

if cell is None:
    page.nothing_traced(run, target)
    doing.show(run, target)
else:
    if not embedded:
        page.card(run, cell, fit)
    page.shares(run, target, fit)
    doing.show(run, target)
    page.timeline(run, cell)
    if not embedded:
        page.explanation(cell, fit)
        page.kernels(run, cell)
        page.host_operations(run, cell)
if not embedded:
    doing.energy(run)
    tracing.show(run, target)
    share.heading()
    share.links({"run": run.id})
