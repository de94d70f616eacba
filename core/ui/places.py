"""Placeholders below the fields of a form for their error messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.base.fields import PlanField
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
            entered = st.number_input(label, value=value, step=step, key=key, persist_state=KEEP, help=help, **look)
            self.here(field)
        return entered

    def plan_field(
        self, field: PlanField, form: str, options: Mapping[str, Any] | None = None, **look: Any
    ) -> Any:  # fmt: skip
        """Draw the widget of a plan's field, with its placeholder below, and return the page's value.

        ``form`` begins the key; ``options`` are the values to choose from, by their words; ``look`` replaces arguments
        of the widget.
        """
        about = field.about
        words = {"label": field.label, "key": f"{form}_{field.key}", "help": _help(field)} | look
        if options is None and field.type in (int, float):
            value = field.on_page(field.default)
            return self.number(field.name, **{"value": value, "step": about.step, "placeholder": about.empty} | words)
        with st.container(gap="xsmall"):
            if options is not None:
                chosen = {"persist_state": KEEP} | words | {"help": about.help}
                entered: Any = options[st.selectbox(options=list(options), **chosen)]
            elif field.type is bool:
                entered = st.checkbox(**{"value": field.default, "persist_state": KEEP} | words)
            else:
                entered = st.text_input(**{"persist_state": KEEP} | words)
            self.here(field.name)
        return entered

    def fill(self, errors: dict[str, str]) -> None:
        for field, slot in self._slots.items():
            if field in errors:
                slot.error(plain(errors[field]), icon=":material/error:")


def _help(field: PlanField) -> str | None:
    """Return the tooltip: meaning, limits, and what an empty field stands for."""
    limits = f"{field.limits[0].upper()}{field.limits[1:]}." if field.limits else ""
    empty = f"Empty: {field.about.empty}." if field.about.empty else ""
    return " ".join(filter(None, (field.about.help, limits, empty))) or None
