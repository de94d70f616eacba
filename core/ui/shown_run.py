"""The run that a page shows, and the choice among its targets.

It is the address's run, else the session's last, else the newest own, else the example: the menu names no run, and a
user who changes pages means the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from core.base.schema import UserError
from core.base.text import sentence_case
from core.networks.families import network_from_name
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.ui import navigation, registry
from core.ui.navigation import link
from core.ui.network_form import put_network
from core.ui.words import plain

LAST = "opened_run"


def run(*, infers: bool = False) -> Run:
    """Return the run to show; stop the page if there is none.

    Its id is put into the address, so that the address reopens exactly this evidence. A page that needs a run of
    inference (``infers``) opens the last, the newest or the shipped one of those, and changes no other page's run.
    """
    run_id = st.query_params.get("run")
    try:
        shown = registry.find_run(run_id) if run_id else _usual(infers)
    except UserError as error:
        st.error(plain(str(error)), icon=":material/search_off:")
        link("history")
        st.stop()
    if shown is None:
        st.info("Nothing was measured yet.", icon=":material/speed:")
        link("sweep")
        st.stop()
    if not run_id:
        st.query_params["run"] = shown.id
    if not infers:
        st.session_state[LAST] = (shown.id, _newest())
    navigation.name_result(shown.name)
    return shown


def _usual(infers: bool) -> Run | None:
    last = _last()
    if not infers:
        return last or registry.shown_by_default()
    return last if last and _infers(last) else registry.newest_own(_infers) or registry.example("inference")


def _infers(run: Run) -> bool:
    return run.plan is not None and not run.plan.workload.training


def carry(page: str) -> SweepPlan | None:
    """Put the network of the run that was opened last into a page's fields and return its plan, once per run."""
    plan = carried(page)
    if plan is not None:
        put_network(plan.workload.network)
        st.session_state.update(form_mode=plan.workload.mode, form_optimizer=plan.workload.optimizer)
    return plan


def carried(page: str) -> SweepPlan | None:
    """Return the plan of the run that was opened last, once per page and run.

    A network from a file, or one that the user's code builds, stays with its run.
    """
    run = opened()
    if run is None or run.plan is None or st.session_state.get(f"{page}_carried") == run.id:
        return None
    st.session_state[f"{page}_carried"] = run.id
    work = run.plan.workload
    try:
        named = network_from_name(work.network.name)
    except ValueError:
        return None
    return run.plan if named == work.network else None


def opened() -> Run | None:
    """Return the run that was opened last, else the newest of this machine."""
    return _last() or registry.newest_own()


def choose_target(run: Run, label: str, targets: Sequence[int], default: int, key: str) -> int:
    """Draw the choice among targets of a run, by name, and return the chosen one's index."""
    chosen = st.segmented_control(
        label, targets, default=default, required=True, key=f"{key}-{run.id}",
        format_func=lambda index: plain(sentence_case(run.names[index])),
    )  # fmt: skip
    return default if chosen is None else chosen


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
