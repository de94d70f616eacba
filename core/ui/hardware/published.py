"""Published curves beside the model, on a page: a chart per source's sweep, its caveats, and a link to open it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from core.hardware.curve import CardCurve
from core.hardware.figures import published_figure
from core.hardware.published import RUN_PREFIX, Published, agreement, gallery, host_costs, modelled_curve
from core.ui import charts, registry
from core.ui.card import draw_badges, label_badge
from core.ui.navigation import link
from core.ui.words import plain

TITLE = "Published curves"
QUERY, VALUE = "show", "published"
FITTED = "Figures of this source are among those that the model was made with."
NOT_FITTED = "The model was made without this source."


def asked() -> bool:
    """Check that the address asks for this part of the page, which then stands first."""
    return st.query_params.get(QUERY) == VALUE


def part() -> dict[str, Callable[[], None]]:
    """Return this part of the page by its title; it is open if the address asks for it."""
    if asked():
        st.session_state.setdefault(f"folded-{TITLE}", True)
    return {TITLE: show}


def to_gallery(label: str) -> None:
    """Show a link to this part of the page."""
    link("hardware", label, ":material/menu_book:", **{QUERY: VALUE})


def show() -> None:
    """Show every entry of the gallery, and the model's agreement with all of them."""
    pairs = [(entry, _curve(entry)) for entry in gallery()]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        draw_badges((label_badge("published"), label_badge("modelled", "GPU curves")))
    st.markdown(
        "What public sources printed of real CPUs and GPUs, each beside the model of the same network on the same card."
    )
    for about, fitted in (("Sources that the model was made without", False), ("Sources it was made with", True)):
        chosen = [pair for pair in pairs if pair[0].fitted == fitted]
        if chosen:
            st.markdown(plain(f"{about}: {agreement(*chosen).sentence}"))
    with st.grid(2, min_column_width=560, gap="medium"):
        for entry, curve in pairs:
            with st.container(border=True):
                _entry(entry, curve)


def _curve(entry: Published) -> CardCurve:
    return registry.once(("published curve", entry.id), partial(modelled_curve, entry))


def _entry(entry: Published, curve: CardCurve) -> None:
    st.markdown(f"**{plain(entry.title)}**")
    make = partial(published_figure, entry, curve, host_costs(entry))
    sentence = agreement((entry, curve)).sentence
    st.markdown(plain(sentence))
    charts.show(f"published-{entry.id}", make, f"{entry.title}, published, and modelled. {sentence}",
                f"published-{entry.id}", (entry.id,), border=False)  # fmt: skip
    with st.expander("Source and caveats"):
        lines = [f"Source: {entry.source}. Licence: {entry.licence}.", f"Ran on: {entry.framework}; {_devices(entry)}.",
                 FITTED if entry.fitted else NOT_FITTED, *entry.caveats]  # fmt: skip
        st.markdown("\n".join(f"- {plain(line)}" for line in lines))
    if entry.is_sweep:
        link("crossover", "Open in the charts of Crossover", run=RUN_PREFIX + entry.id)


def _devices(entry: Published) -> str:
    return entry.gpu if entry.cpu is None else f"{entry.cpu}; {entry.gpu}"
