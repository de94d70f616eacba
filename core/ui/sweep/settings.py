"""The fields of the Sweep form, filled from the page's address and written back into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.numbers import duration, number
from core.schema import UserError
from core.spec import Pipeline, Workload, geometric_grid
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.proposal import with_proposed_budget
from core.ui import machine
from core.ui.fields import PREFETCH
from core.ui.network_form import FIRST_FAMILY, changed_sizes, put_network, usual_network
from core.ui.sweep import address
from core.ui.sweep.draft import USUAL_RANGE, untouched
from core.ui.sweep.targets import put_targets
from core.ui.words import MODES, OPTIMIZERS, plain

WRITTEN = "form_addresses"
KEPT = 8
"""Number of this session's last addresses to remember.

A page run that started before the browser had the newest address carries an older one, and must not reset the fields.
"""
INPUTS = {"resident": "none, data resident", "host": "none, host array"} | {
    name: f"tf.data, {name}" for name in PREFETCH
}
"""How a batch reaches the step, and the prefetch, in words."""
USUAL: Mapping[str, Any] = {
    "form_mode": "train",
    "form_optimizer": "adam",
    "form_batch_kind": "range",
    "form_low": USUAL_RANGE[0],
    "form_high": USUAL_RANGE[1],
    "form_prefetch": "resident",
    "form_calls": None,
    "form_preprocess": 0.0,
    "form_python": False,
    "form_cache": False,
    "form_shuffle": False,
    "form_refine": True,
    "form_budget": None,
    "form_crossover_width": 25.0,
    "form_width": 5.0,
    "form_name": "",
}
"""Keys of the fields, and their defaults."""


def usual_plan(here: machine.Machine) -> SweepPlan:
    """Return the plan of the default form on this machine."""
    return untouched(Workload(network=usual_network()), here.compared_targets())


def follow(here: machine.Machine) -> None:
    """Put the settings of the address into the fields, or say in one sentence why not."""
    asked = {field: tuple(st.query_params.get_all(field)) for field in address.FIELDS if field in st.query_params}
    if asked in st.session_state.get(WRITTEN, []) and not _went_back():
        return
    if not asked and not _went_back():
        return
    try:
        plan, name = address.read(asked, usual_plan(here))
        _put(plan, name, here)
    except UserError as error:
        why = str(error).rstrip(".")
        st.info(plain(f"The settings in this page’s address were left out: {why}."), icon=":material/link_off:")


def _went_back() -> bool:
    """Return whether the browser's Back or Forward set the address, which is then always applied."""
    return bool(getattr(get_script_run_ctx(), "is_history_navigation", False))


def put_into_address(plan: SweepPlan, name: str, here: machine.Machine) -> None:
    """Put the form's plan into the address, so that a reload or a link restores it."""
    query = address.written(plan, usual_plan(here), name)
    recent = st.session_state.get(WRITTEN, [])
    if not recent or recent[-1] != query:
        st.session_state[WRITTEN] = [*recent, query][-KEPT:]
    others = {key: st.query_params.get_all(key) for key in st.query_params if key not in address.FIELDS}
    wanted = others | {field: list(values) for field, values in query.items()}
    if wanted != {key: st.query_params.get_all(key) for key in st.query_params}:
        st.query_params.from_dict(wanted)


def _put(plan: SweepPlan, name: str, here: machine.Machine) -> None:
    """Put a plan into the fields. Raises UserError, changing nothing, if the form or this machine cannot offer it."""
    work, pipeline = plan.workload, plan.pipeline
    reaching = _input_of(pipeline)
    put_targets(plan.targets, here)
    put_network(work.network)
    low, high = plan.batches[0], plan.batches[-1]
    is_range = plan.batches == geometric_grid(low, high)
    values = {
        "form_mode": work.mode,
        "form_optimizer": work.optimizer,
        "form_batch_kind": "range" if is_range else "list",
        "form_prefetch": reaching,
        "form_calls": pipeline.parallel_calls,
        "form_preprocess": pipeline.preprocess_us,
        "form_python": pipeline.preprocess_python,
        "form_cache": pipeline.cache,
        "form_shuffle": pipeline.shuffle,
        "form_refine": plan.refine,
        "form_budget": None if plan == with_proposed_budget(plan) else round(plan.budget_s),
        "form_crossover_width": 100 * plan.crossover_width,
        "form_width": 100 * plan.step_width,
        "form_name": name,
    }
    listed = {"form_batch_list": ", ".join(map(str, plan.batches))}
    values |= {"form_low": low, "form_high": high} if is_range else listed
    st.session_state.update(values)


def _input_of(pipeline: Pipeline) -> str:
    """Return the form's choice for an input pipeline. Raises UserError if it has none."""
    if pipeline.kind != "tfdata":
        return pipeline.kind
    names = {value: name for name, value in PREFETCH.items()}
    if pipeline.prefetch not in names or not isinstance(pipeline.parallel_calls, int | None):
        raise UserError("the form does not offer its input pipeline")
    return names[pipeline.prefetch]


def differences() -> list[str]:
    """Return the folded settings that differ from their defaults, in words, before their fields are drawn."""
    now = {key: st.session_state.get(key, usual) for key, usual in USUAL.items()}
    changed = {key for key, usual in USUAL.items() if now[key] != usual}
    words = {
        "form_mode": MODES.get(now["form_mode"], "").lower(),
        "form_optimizer": OPTIMIZERS.get(now["form_optimizer"], "") if now["form_mode"] == "train" else "",
        "form_batch_kind": "list of batch sizes",
        "form_calls": f"{now['form_calls']} parallel calls",
        "form_preprocess": f"{number(now['form_preprocess'] or 0.0)} µs preprocessing",
        "form_cache": "cache",
        "form_shuffle": "shuffle",
        "form_refine": "no refinement",
        "form_budget": f"{duration(now['form_budget'] or 0)} budget",
        "form_crossover_width": f"crossover interval {number(now['form_crossover_width'] or 0.0)} %",
        "form_width": f"step time interval {number(now['form_width'] or 0.0)} %",
        "form_name": "a name",
    }
    if now["form_prefetch"] not in PREFETCH:
        changed -= {"form_calls", "form_preprocess", "form_cache", "form_shuffle"}
    family = st.session_state.get("form_family", FIRST_FAMILY)
    return [*changed_sizes(family), *(said for key, said in words.items() if key in changed and said)]
