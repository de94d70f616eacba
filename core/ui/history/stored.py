"""A stored study on the History page: its text, its page, its file."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from core.base.schema import UserError
from core.base.text import in_lines
from core.store import Summary
from core.studies.kind import Context, Kind
from core.studies.registry import kind_of
from core.ui import menu, registry, share
from core.ui.card import label_badge, result_card
from core.ui.words import plain


def title_of(summary: Summary) -> str:
    """Return the title of the study's kind, or the kind's own name if this version does not know it."""
    try:
        return kind_of(summary.kind).title
    except UserError:
        return summary.kind


def show(summary: Summary) -> bool:
    """Show the study in its command's words; return False if it cannot be read."""
    try:
        kind, record, context = _read(summary)
    except (UserError, OSError) as error:
        st.error(plain(str(error)), icon=":material/error:")
        return False
    try:
        text = kind.text(record, kind.answer(record, context), context)
    except UserError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return True
    headline, _, more = text.partition("\n")
    card = result_card(kind.title, [label_badge(record.label)], headline, (summary.name,), status=record.status)
    with card, st.expander("All that it says", icon=":material/notes:"):
        st.code(in_lines(more.strip().split("\n")), language=None, wrap_lines=True)
    return True


def link(summary: Summary) -> None:
    """Link to the study's page, if a page can show it."""
    place = menu.opening(summary.kind)
    if place is not None and (summary.run_id is not None or not kind_of(summary.kind).of_a_run):
        page, address = place
        query = {address: summary.id} | ({"run": summary.run_id} if summary.run_id else {})
        st.page_link(menu.path(page), label="Open", icon=":material/open_in_new:", query_params=query)


def file(summary: Summary) -> None:
    """Draw the download of the whole study, for import elsewhere."""
    share.json_button(f"{summary.kind}-{summary.id}", partial(data, summary), share.EVERY_BLOCK)


def data(summary: Summary) -> dict[str, Any]:
    """Return the export; only the record if it supports no answer."""
    kind, record, context = _read(summary)
    record = registry.whole(kind, record)
    try:
        return kind.export(record, kind.answer(record, context), context)
    except UserError:
        return {"record": record.model_dump(mode="json")}


def _read(summary: Summary) -> tuple[Kind[Any, Any, Any], Any, Context]:
    """Return kind, record and context of a study. Raises UserError or OSError."""
    kind = kind_of(summary.kind)
    record = registry.load(kind.name, summary.id)
    return kind, record, registry.context(kind, record, _run(summary))


def _run(summary: Summary) -> object | None:
    try:
        return registry.find_run(summary.run_id) if summary.run_id is not None else None
    except UserError:
        return None
