"""Hardware: where GPUs that are not here would overtake this CPU, as a model with its error stated."""

import streamlit as st

from core.ui import (
    hardware,
    hardware_choices,
    hardware_evidence,
    hardware_form,
    hardware_result,
    navigation,
    opened,
    verdict,
)

navigation.guard()
run = opened.run()
embedded = st.context.is_embedded
if not embedded:
    st.header(f"Where would a GPU overtake this CPU? {verdict.plain(run.name)}", anchor=False)
answer, usual, targets = hardware.subject(run)
cards = hardware.cards()
options, told = hardware_choices.read_options(st.query_params, usual, targets, cards)
prices, wrong_prices = hardware_form.prices(cards)

if embedded:
    seen = hardware.compared(run, answer, options, prices)
    hardware_result.card(seen)
    hardware_result.main_picture(seen)
    st.stop()

if hardware.running():
    hardware.progress()
else:
    hardware.failed()
    hardware.watch()
top = st.container()
for sentence in told:
    st.info(verdict.plain(sentence), icon=":material/info:")
options = hardware_form.options(run, options, targets, cards)
seen = hardware.compared(run, answer, options, prices)
hardware_form.keep_host(seen.host)
with top:
    hardware_result.card(seen)
hardware_result.notices(seen)

curves_tab, cards_tab, limits_tab, evidence_tab, own_tab = st.tabs(
    ["Curves", "All cards", "What limits it", "Host and evidence", "Your own card"], key="hardware_tab",
    on_change="rerun",
)  # fmt: skip
if curves_tab.open:
    with curves_tab:
        hardware_result.pictures(seen)
if cards_tab.open:
    with cards_tab:
        hardware_result.table(seen)
        hardware_form.price_fields(tuple(one.spec for one in seen.chosen), wrong_prices)
if limits_tab.open:
    with limits_tab:
        hardware_result.limits(seen)
if evidence_tab.open:
    with evidence_tab:
        hardware_evidence.show(seen)
if own_tab.open:
    with own_tab:
        hardware_form.own(run, cards)
hardware_result.take_along(seen)
st.page_link("pages/crossover.py", label="The measured verdict of this run and its charts",
             icon=":material/line_axis:", query_params={"run": run.id})  # fmt: skip
