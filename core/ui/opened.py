"""Which run a page shows: the one named in the address, else the newest own one, else the example."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from core.results import Run
from core.store import StoreError
from core.ui import registry


def run() -> Run:
    """The run to show; stops the page where there is none.

    Its id is put into the address, so that the address reopens exactly this evidence.
    """
    asked = st.query_params.get("run")
    try:
        found = registry.find_run(asked) if asked else registry.shown_by_default()
    except (StoreError, ValueError) as error:
        st.error(str(error), icon=":material/search_off:")
        st.page_link("pages/history.py", label="See the runs that are here", icon=":material/history:")
        st.stop()
    if found is None:
        st.info("Nothing was measured yet.", icon=":material/speed:")
        st.page_link("pages/sweep.py", label="Measure this machine", icon=":material/speed:")
        st.stop()
    if not asked:
        st.query_params["run"] = found.id
    return found


def links(run: Run, more: dict[str, str] | None = None) -> None:
    """The address of this evidence, and of the view without chrome for slides and screenshots.

    ``more``: what the address holds besides the run.
    """
    address = st.context.url
    if not address:
        return
    base = urlunsplit((*urlsplit(address)[:3], urlencode({"run": run.id, **(more or {})}), ""))
    left, right = st.columns(2)
    left.caption("Link to this evidence")
    left.code(base, language=None, wrap_lines=True)
    right.caption("Embedded view, without menus")
    right.code(f"{base}&embed=true", language=None, wrap_lines=True)
