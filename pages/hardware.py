"""Hardware: from which batch GPUs that are not here would be faster than this CPU, as a model with its error stated."""

import streamlit as st

from core.ui import frame, money, navigation, shown_run
from core.ui.hardware import compiled, draft, evidence, form, page, published, result, validation
from core.ui.words import plain

navigation.guard()
run = shown_run.run()
answer, usual, targets = page.subject(run)
cards = page.cards()
options, problems = draft.read_options(st.query_params, usual, targets, cards)
prices, wrong_prices = form.prices(cards)
embedded, head = st.context.is_embedded, st.container()
if not embedded:
    money.put()
    for measuring in (page.PAGE, compiled.PAGE):
        (measuring.failure if measuring.running() is None else measuring.progress)()
parts = published.part()
if published.asked() and not embedded:
    frame.folded(parts)
beside = st.container()
top = st.container()  # the choices stand below the answer, which is drawn once it is known
if not embedded:
    for sentence in problems:
        st.info(plain(sentence), icon=":material/info:")
    options = form.options(run, options, usual, targets, cards, beside)
seen = page.compared(run, answer, options, prices)
with top:
    frame.show(
        page.QUESTION, lambda: result.card(seen), lambda: result.main_picture(seen),
        share=lambda: result.sharing(seen), head=head,
    )  # fmt: skip
if embedded:
    st.stop()
form.keep_host(seen.host)
result.notices(seen)


def every_card() -> None:
    result.table(seen)
    form.price_fields(tuple(reading.spec for reading in seen.chosen), wrong_prices)


frame.folded(
    {
        **validation.part(),
        **result.step_times_part(seen),
        "All cards": every_card,
        **compiled.part(seen),
        "What limits a card": lambda: result.limits(seen),
        result.HOST_PART: lambda: evidence.host(seen),
        "How far the model errs, facts of the cards, the machine": lambda: evidence.show(seen),
        **({} if published.asked() else parts),
        "Your own card": lambda: form.own(run, cards),
    }
)
navigation.link("crossover", "The measured verdict of this run and its charts", run=run.id)
