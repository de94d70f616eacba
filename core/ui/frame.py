"""The frame of every result: its name and *Share*, the verdict, one picture, notes, and the folded evidence below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.schema import UserError
from core.figures.style import short
from core.ui.words import plain
from core.workload.names import are

Draw = Callable[[], None]
HEADING_CHARS = 32  # of a target in the heading
NOTHING: Mapping[str, Draw] = MappingProxyType({})


class Parts(Protocol):
    """The parts of a result."""

    def verdict(self) -> None: ...

    def picture(self) -> None: ...

    def notes(self) -> None: ...

    def evidence(self) -> Mapping[str, Draw]: ...

    def share(self) -> None: ...


def show_parts(heading: str, make: Callable[[], Parts], head: DeltaGenerator, subject: str = "") -> None:
    """Show a result, or its heading and the reason if ``make`` raises UserError."""
    try:
        parts = make()
    except UserError as error:
        if not st.context.is_embedded:
            with head:
                top(heading, subject=subject)
        st.info(plain(str(error)), icon=":material/info:")
        return
    show(
        heading, parts.verdict, parts.picture, notes=parts.notes, evidence=parts.evidence(), share=parts.share,
        head=head, subject=subject,
    )  # fmt: skip


def show(
    heading: str,
    verdict: Draw,
    picture: Draw,
    *,
    notes: Draw | None = None,
    evidence: Mapping[str, Draw] = NOTHING,
    share: Draw | None = None,
    head: DeltaGenerator | None = None,
    subject: str = "",
) -> None:
    """Show a result from its parts.

    ``share`` is drawn inside a popover beside the heading; ``evidence`` is folded, by title, and each part is drawn
    once opened. Embedded in another page, the heading and those two are left out. ``head`` is a place for the heading
    above what a page has already drawn; ``subject`` stands below it.
    """
    embedded = st.context.is_embedded
    if not embedded:
        with head or st.container():
            top(heading, share, subject=subject)
    verdict()
    picture()
    if notes is not None:
        notes()
    if not embedded:
        folded(evidence)


def top(
    heading: str, beside: Draw | None = None, label: str = "Share", icon: str = ":material/share:", subject: str = ""
) -> None:
    """Draw the heading of a page, below it its ``subject``, and ``beside`` it a popover with what is seldom needed."""
    left, right = st.container(), st.container()
    if beside is not None:  # columns, since in a horizontal container a long heading would wrap
        left, right = st.columns([6, 1], vertical_alignment="center")
        with right.popover(label, icon=icon, width="stretch"):
            beside()
    left.title(plain(heading), anchor=False)
    if subject:
        left.markdown(plain(subject))


def which_is_faster(begin: str, names: Sequence[str]) -> str:
    """Return a heading that every answer fits: ``begin``, and if the last target is faster than the first."""
    first, last = (short(name, HEADING_CHARS) for name in (names[0], names[-1]))
    return f"{begin} {are(last)} {last} faster than {first}?"


def choice_and_form(has_choice: bool) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return places for the choice of a study and the next one's form: side by side if there is a choice."""
    if not has_choice:
        return st.container(), st.container()
    left, right = st.columns(2, vertical_alignment="bottom")
    return left, right


def folded(parts: Mapping[str, Draw]) -> None:
    """Show parts by title, each drawn once opened."""
    for title, draw in parts.items():
        part = st.expander(plain(title), on_change="rerun", key=f"folded-{title}")
        if part.open:
            with part:
                draw()
