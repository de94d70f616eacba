"""Which run a page shows: the one named in the address, else the newest own one, else the example."""

from __future__ import annotations

import streamlit as st

from core.schema import UserError
from core.studies.sweep.record import Run
from core.ui import registry, tab
from core.ui.navigation import link
from core.ui.words import plain


def run() -> Run:
    """The run to show; stops the page where there is none.

    Its id is put into the address, so that the address reopens exactly this evidence.
    """
    asked = st.query_params.get("run")
    try:
        found = registry.find_run(asked) if asked else registry.shown_by_default()
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
    tab.shows(found.name)
    return found
