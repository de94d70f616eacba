"""The run that a page shows: the address's, else the session's last, else the newest own, else the example.

The menu names no run, and a user who changes pages means the same run.
"""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from core.base.schema import UserError
from core.rounds.run import Run
from core.ui import navigation, registry
from core.ui.navigation import link
from core.ui.words import plain

LAST = "opened_run"


def run() -> Run:
    """Return the run to show; stop the page if there is none.

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
    navigation.shows(found.name)
    return found


def _last() -> Run | None:
    """Return the session's last run, unless a newer one was measured since, which is then of more interest."""
    last, newest = st.session_state.get(LAST, ("", ""))
    if last and newest == _newest():
        with suppress(UserError):  # deleted
            return registry.find_run(last)
    return None


def _newest() -> str:
    newest = registry.newest_own()
    return "" if newest is None else newest.id
