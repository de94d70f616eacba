"""Placeholders below the fields of a form for their error messages."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.ui.words import plain

KEEP: Any = "session"  # choices survive a visit to another page


class Places:
    """A placeholder below each field for its error message, filled once all fields are known."""

    def __init__(self) -> None:
        self._slots: dict[str, Any] = {}

    def here(self, field: str) -> None:
        self._slots[field] = st.empty()

    def number(
        self, field: str, label: str, value: Any, key: str, help: str | None = None, step: Any = 1, **look: Any
    ) -> Any:
        """Draw a number field with its placeholder below, as one cell of a grid."""
        with st.container(gap="xsmall"):
            given = st.number_input(label, value=value, step=step, key=key, persist_state=KEEP, help=help, **look)
            self.here(field)
        return given

    def fill(self, errors: dict[str, str]) -> None:
        for field, slot in self._slots.items():
            if field in errors:
                slot.error(plain(errors[field]), icon=":material/error:")
