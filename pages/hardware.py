"""Hardware: where GPUs that are not here would overtake this CPU, as a model with its error stated."""

import streamlit as st

from core.ui import navigation, opened
from core.ui.hardware import draft, evidence, form, page, published, result
from core.ui.words import plain

navigation.guard()
run = opened.run()
embedded = st.context.is_embedded
if not embedded:
    st.header(f"Where would a GPU overtake this CPU? {plain(run.name)}", anchor=False)
answer, usual, targets = page.subject(run)
cards = page.cards()
options, problems = draft.read_options(st.query_params, usual, targets, cards)
prices, wrong_prices = form.prices(cards)

if embedded:
    seen = page.compared(run, answer, options, prices)
    result.card(seen)
    result.main_picture(seen)
    st.stop()

if page.PAGE.running() is not None:
    page.PAGE.progress()
else:
    page.PAGE.idle()
top = st.container()
for sentence in problems:
    st.info(plain(sentence), icon=":material/info:")
options = form.options(run, options, usual, targets, cards)
seen = page.compared(run, answer, options, prices)
form.keep_host(seen.host)
with top:
    result.card(seen)
result.notices(seen)


def every_card() -> None:
    result.table(seen)
    form.price_fields(tuple(reading.spec for reading in seen.chosen), wrong_prices)


navigation.tabs(
    "hardware_tab",
    {
        "Curves": lambda: result.pictures(seen),
        "All cards": every_card,
        "What limits it": lambda: result.limits(seen),
        "Host and evidence": lambda: evidence.show(seen),
        published.TAB: published.show,
        "Your own card": lambda: form.own(run, cards),
    },
    first=published.TAB if published.asked() else None,
)
result.export_and_share(seen)
navigation.link("crossover", "The measured verdict of this run and its charts", run=run.id)
