"""The card that opens every result, and the notices that qualify it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.evidence import Label
from core.base.numbers import counted
from core.ui.method_text import LABELS
from core.ui.notices import ICONS, Notice
from core.ui.words import LABEL_ICONS, plain, unbroken

Colour = Literal["green", "blue", "violet", "orange", "grey", "red"]
LABEL_COLOURS: dict[Label, Colour] = {
    "measured": "green", "recorded": "blue", "published": "orange", "compiled": "orange",
    "modelled": "violet",
    "simulated": "red",
}  # fmt: skip
DRAW_NOTICE = {"info": st.info, "warning": st.warning, "error": st.error}


class Badge(NamedTuple):
    words: str
    icon: str
    colour: Colour
    help: str | None = None


def label_badge(label: Label, of: str = "") -> Badge:
    """Return the badge for the origin of numbers; ``of`` says which numbers."""
    return Badge(f"{of} {label}".strip(), LABEL_ICONS[label], LABEL_COLOURS[label], LABELS[label])


def predicted_badge(basis: str) -> Badge:
    return Badge("predicted", ":material/functions:", "violet", basis)


def draw_badges(badges: Iterable[Badge]) -> None:
    for badge in badges:
        st.badge(plain(badge.words), icon=badge.icon, color=badge.colour, help=plain(badge.help or "") or None)


def result_card(
    heading: str,
    badges: Iterable[Badge],
    sentence: str,
    about: Iterable[str],
    *,
    status: str = "finished",
    icon: str = "",
    more: Iterable[str] = (),
    below: Callable[[], None] | None = None,
) -> DeltaGenerator:
    """Draw heading with badges, the sentence, ``more`` paragraphs, and the caption lines ``about``; all plain text.

    ``below`` draws one further line. Returns the card, so that more can be drawn in it.
    """
    card = st.container(border=True)
    with card:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{plain(heading)}**", width="content")
            draw_badges(badges)
            if status != "finished":
                st.badge(plain(status), icon=":material/flag:", color="orange")
        st.header(f"{icon} {unbroken(sentence)}".strip(), anchor=False)
        for paragraph in more:
            st.markdown(plain(paragraph))
        st.caption("  \n".join(plain(line) for line in about))
        if below is not None:
            with st.container(horizontal=True, vertical_alignment="center"):
                below()
    return card


def metric(name: str, value: str, bounds: str | None, meaning: str = "") -> None:
    """Draw a number with its interval beneath."""
    st.metric(plain(name), plain(value), delta=plain(bounds or "") or None, delta_color="off", delta_arrow="off",
              help=plain(meaning) or None)  # fmt: skip


def interval_metric(name: str, words: str, meaning: str, *, before: str = "", after: str = "") -> None:
    """Draw a metric from ``words`` such as ``41 (32 to 50)``."""
    value, _, bounds = words.partition(" (")
    metric(name, f"{before}{value}{after}", bounds.rstrip(")"), meaning)


def draw_notices(notices: Iterable[Notice]) -> None:
    for notice in notices:
        DRAW_NOTICE[notice.level](plain(notice.text), icon=ICONS[notice.level])


def draw_notes(notices: Sequence[Notice], unfolded: int) -> None:
    """Draw ``unfolded`` notices openly, and fold the others under their number; embedded pages leave those out."""
    draw_notices(notices[:unfolded])
    if (folded := notices[unfolded:]) and not st.context.is_embedded:
        with st.expander(counted(len(folded), "more note" if unfolded else "note")):
            for notice in folded:
                st.markdown(f"{ICONS[notice.level]} {plain(notice.text)}")
