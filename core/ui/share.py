"""Export and share, alike on every page: the address of this evidence, the view without menus, and the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from core.text import json_text

EVERY_BLOCK = "What the study says and every block that was measured."


def heading() -> None:
    st.subheader("Export and share", anchor=False)


def links(query: Mapping[str, str]) -> None:
    """The address of this evidence, which ``query`` names, and of the view without menus for slides."""
    address = st.context.url
    if not address:
        return
    base = urlunsplit((*urlsplit(address)[:3], urlencode(query, safe="~"), ""))
    left, right = st.columns(2)
    left.caption("Link to this evidence")
    left.code(base, language=None, wrap_lines=True)
    right.caption("Embedded view, without menus")
    right.code(f"{base}&embed=true", language=None, wrap_lines=True)


def json_button(name: str, make: Callable[[], Mapping[str, Any]], meaning: str) -> None:
    """A download made only when it is pressed; ``name`` is the file's, without its ending."""
    st.download_button(
        "JSON", data=partial(json_bytes, make), file_name=f"breakeven-{name}.json", mime="application/json",
        icon=":material/download:", on_click="ignore", key=f"download-{name}", help=meaning,
    )  # fmt: skip


def json_bytes(make: Callable[[], Mapping[str, Any]]) -> bytes:
    """The file: as the commands' ``--out`` writes it."""
    return json_text(make()).encode() + b"\n"
