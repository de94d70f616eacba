"""Which run a page shows: the one named in the address, else the one that this session looked at last, else the newest
own one, else the example. The menu names no run, and whoever goes from one page of a result to another means the same.
"""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from core.schema import UserError
from core.studies.sweep.record import Run
from core.ui import registry, tab
from core.ui.navigation import link
from core.ui.words import plain

LAST = "opened_run"


def run() -> Run:
    """The run to show; stops the page where there is none.

    Its id is put into the address, so that the address reopens exactly this evidence.
    """
    asked = st.query_params.get("run")
    try:
        found = registry.find_run(asked) if asked else _last() or registry.shown_by_default()
    except UserError as error:
        st.error(plain(str(error)), icon=":material/search_off:")
        link("history")
        st.stop()
    if found is None:
        st.info("Nothing was measured yet.", icon=":material/speed:")
        link("sweep")
        st.stop()
    if not asked:
        st.query_params["run"] = found.id
    st.session_state[LAST] = (found.id, _newest())
    tab.shows(found.name)
    return found


def _last() -> Run | None:
    """What this session looked at last, unless a run was measured since, which then is what one wants to see."""
    last, newest = st.session_state.get(LAST, ("", ""))
    if last and newest == _newest():
        with suppress(UserError):  # deleted
            return registry.find_run(last)
    return None


def _newest() -> str:
    newest = registry.newest_own()
    return "" if newest is None else newest.id
