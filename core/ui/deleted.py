"""Undo of deletions. The store keeps them, so they survive a reload, and everybody can undo them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import streamlit as st

from core.numbers import counted
from core.store import Deletion, StoreError, kept_until
from core.ui import registry
from core.ui.words import plain

AT_TOP = timedelta(hours=1)
SHOWN = 30  # deletions
FAILED = "undo_failed"


def newest() -> None:
    """Show the newest deletion above the list, if it is recent."""
    if problem := st.session_state.pop(FAILED, None):
        st.error(plain(problem), icon=":material/error:")
    for deletion in _deletions()[:1]:
        if _is_new(deletion):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(plain(f"Deleted {_what(deletion)}. {_until(deletion)}"), width="content")
                _button(deletion, "Undo")


def earlier() -> None:
    """List all earlier deletions, folded."""
    found = _deletions()
    if found and _is_new(found[0]):
        found = found[1:]
    if found:
        with st.expander("Deleted earlier", icon=":material/delete_history:"):
            for deletion in found:
                with st.container(horizontal=True, vertical_alignment="center"):
                    day = deletion.at[:16].replace("T", " ")
                    st.markdown(plain(f"{_what(deletion)}, {day} UTC. {_until(deletion)}"), width="content")
                    _button(deletion, "Bring back")


def _deletions() -> tuple[Deletion, ...]:
    return () if registry.read_only() else registry.engine().store.deletions(SHOWN)


def _is_new(deletion: Deletion) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(deletion.at) < AT_TOP
    except (ValueError, TypeError):
        return False


def _what(deletion: Deletion) -> str:
    return f"“{deletion.name}”" if deletion.studies == 1 else counted(deletion.studies, "study", "studies")


def _until(deletion: Deletion) -> str:
    try:
        until = kept_until(deletion.at)
    except (ValueError, TypeError):
        return ""
    return f"It can be brought back until {until.day} {until:%B %Y}."


def _button(deletion: Deletion, words: str) -> None:
    key = "undo" if words == "Undo" else f"bring-back-{deletion.at}"
    st.button(plain(words), icon=":material/undo:", key=key, on_click=_undo, args=(deletion.at,))


def _undo(at: str) -> None:
    try:
        registry.engine().store.undo(at)
    except StoreError as error:
        st.session_state[FAILED] = str(error)
