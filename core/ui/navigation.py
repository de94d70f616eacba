"""The pages and the way between them."""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from core.store import StoreError
from core.ui import registry

ROUTED = "routed"


def pages() -> list[StreamlitPage]:
    """Every page, the first one being what opens at the root address."""
    return [
        st.Page(
            "pages/sweep.py", title="Sweep", icon=":material/speed:", default=True,
            help="Choose a workload and two targets, measure this machine, watch it happen.",
        ),
        st.Page(
            "pages/crossover.py", title="Crossover", icon=":material/line_axis:", url_path="crossover",
            help="The verdict of one run, its charts, and how it was measured.",
        ),
        st.Page(
            "pages/frontier.py", title="Frontier", icon=":material/terrain:", url_path="frontier",
            help="How deep, wide or large in batch it must be before the second target pays: a map with its line.",
        ),
        st.Page(
            "pages/batch.py", title="Batch", icon=":material/stacks:", url_path="batch",
            help="Which batch to train with: time to a loss, the gradient noise scale, memory and cost.",
        ),
        st.Page(
            "pages/hardware.py", title="Hardware", icon=":material/memory:", url_path="hardware",
            help="Where GPUs that are not here would overtake this CPU: modelled, with the model's error stated.",
        ),
        st.Page(
            "pages/overhead.py", title="Overhead", icon=":material/stacked_bar_chart:", url_path="overhead",
            help="Where a step goes: traced parts beside the fitted share, a timeline, kernels, what ran on the host.",
        ),
        st.Page(
            "pages/pipeline.py", title="Pipeline", icon=":material/water_pump:", url_path="pipeline",
            help="How much of a step the input takes, which prefetch is enough, from which cost on the device starves.",
        ),
        st.Page(
            "pages/diagnosis.py", title="Diagnosis", icon=":material/stethoscope:", url_path="diagnosis",
            help="What would make a target faster: every remedy tried here, ranked by its measured gain.",
        ),
        st.Page(
            "pages/history.py", title="History", icon=":material/history:", url_path="history",
            help="Every run kept here: open, compare, rename, delete, import, export.",
        ),
        st.Page(
            "pages/method.py", title="Method", icon=":material/menu_book:", url_path="method",
            help="The words, the rules of measurement, this machine, and common timing pitfalls live.",
        ),
    ]  # fmt: skip


def run() -> None:
    """Route to the page that was asked for; the flag tells :func:`guard` that the page has its frame."""
    page = st.navigation(pages(), position="hidden" if st.context.is_embedded else "top")
    st.session_state[ROUTED] = True
    try:
        page.run()
    except StoreError as error:  # the disk went away, or the database did: say it, whatever the page was doing
        st.error(str(error), icon=":material/database_off:")
    finally:
        st.session_state[ROUTED] = False


def guard() -> None:
    """First call of every page.

    On a cold server a link straight to a page makes Streamlit run that file alone, without the router. Declaring the
    navigation and running once more repairs that and keeps the query string. Then the store must open, or the page
    says why not.
    """
    if not st.session_state.get(ROUTED, False):
        st.navigation(pages(), position="top")
        st.rerun()
    registry.require()
