"""The fields of the Sweep form, filled from the page's address and written back into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from pydantic import ValidationError
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.base.fields import PlanField, fields_of
from core.base.numbers import duration, number
from core.base.schema import UserError, explain
from core.networks.families import network_from_name
from core.networks.families.own import Own
from core.rounds.plan import SweepPlan
from core.studies.sweep.proposal import with_proposed_budget
from core.ui import machine
from core.ui.fields import PREFETCH
from core.ui.network_form import FIRST_FAMILY, changed_sizes, put_network, usual_network
from core.ui.sweep.draft import RANGE, untouched
from core.ui.sweep.targets import put_targets
from core.ui.words import MODES, OPTIMIZERS, plain
from core.workload.lengths import parse_lengths, written_lengths
from core.workload.spec import Pipeline, Target, Workload, geometric_grid, parse_batches

Query = dict[str, tuple[str, ...]]
"""The values of each name in an address."""
PLAN = fields_of(SweepPlan)
INPUT = {name: field for name, field in fields_of(Pipeline).items() if name != "data"}
"""Options of a tf.data pipeline, all of them allowed in an address; never a path."""
WRITTEN_FIELDS = tuple(PLAN[name] for name in ("refine", "budget_s", "crossover_width", "step_width"))
"""Fields of a plan whose key is their name in an address, besides those that need words of their own."""
FIELDS = (
    "network", "mode", "optimizer", "lengths", "target", "batches", "input",
    *(field.key for field in WRITTEN_FIELDS), "name",
)  # fmt: skip
MAX_VALUE = 600
"""Maximum length of one value, in characters."""
MAX_NAME = 200
SWITCHES = {"yes": True, "no": False}


def written(plan: SweepPlan, usual: SweepPlan, name: str = "") -> Query:
    """Return the address of a plan relative to the default one ``usual``; empty if they are equal."""
    untouched, named = _said(usual), {"name": name[:MAX_NAME]} if name else {}
    changed = {field: value for field, value in (_said(plan) | named).items() if untouched.get(field) != value}
    if not changed and plan.targets == usual.targets:
        return {}
    return {field: (value,) for field, value in changed.items()} | {"target": tuple(map(str, plan.targets))}


def _said(plan: SweepPlan) -> dict[str, str]:
    work, proposed = plan.workload, {"budget_s"} if plan == with_proposed_budget(plan) else set()
    network = {} if isinstance(work.network, Own) else {"network": work.network.name}
    return network | {
        "mode": work.mode,
        "optimizer": work.optimizer,
        "lengths": written_lengths(work.lengths),
        "batches": batches_words(plan.batches),
        "input": input_words(plan.pipeline),
        **{field.key: _word(getattr(plan, field.name)) for field in WRITTEN_FIELDS if field.name not in proposed},
    }


def batches_words(batches: Sequence[int]) -> str:
    """Return ``1:1024`` for doublings, else a list."""
    low, high = batches[0], batches[-1]
    return f"{low}:{high}" if tuple(batches) == geometric_grid(low, high) else ",".join(map(str, batches))


def input_words(pipeline: Pipeline) -> str:
    """Return ``resident``, ``host``, or ``tfdata,prefetch=2,cache=yes``."""
    plain = Pipeline(kind=pipeline.kind)
    changed = [name for name in INPUT if getattr(pipeline, name) != getattr(plain, name)]
    return ",".join([pipeline.kind, *(f"{name}={_word(getattr(pipeline, name))}" for name in changed)])


def _word(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:g}" if value != "auto" else value


def read(query: Mapping[str, Sequence[str]], usual: SweepPlan) -> tuple[SweepPlan, str]:
    """Return the plan in an address, with defaults for what it omits, and the run's name.

    Raises UserError with the reason why the address cannot be used.
    """
    values_of = {field: list(values) for field, values in query.items() if field in FIELDS}
    for field, values in values_of.items():
        if any(len(value) > MAX_VALUE or not value.isprintable() for value in values):
            raise UserError(f"it has a value of “{field}” that is too long or cannot be shown")
        if field != "target" and len(values) > 1:
            raise UserError(f"it gives “{field}” more than once")
    try:
        return _plan({field: values[-1] for field, values in values_of.items()}, values_of.get("target"), usual)
    except ValidationError as error:
        raise UserError(explain(error)) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _plan(query: Mapping[str, str], targets: Sequence[str] | None, usual: SweepPlan) -> tuple[SweepPlan, str]:
    values = {name: getattr(usual, name) for name in SweepPlan.model_fields}
    work = {name: getattr(usual.workload, name) for name in ("network", "mode", "optimizer")}
    work["lengths"] = parse_lengths(query.get("lengths", ""))
    if "network" in query:
        work |= {"network": network_from_name(query["network"]), "mode": None}  # the network's usual one
    work |= {name: query[name] for name in ("mode", "optimizer") if name in query}
    values["workload"] = work
    if targets is not None:
        values["targets"] = tuple(map(_target, targets))
    if "batches" in query:
        values["batches"] = parse_batches(query["batches"])
    if "input" in query:
        values["pipeline"] = _input(query["input"])
    values |= {field.name: _value(field, query[field.key]) for field in WRITTEN_FIELDS if field.key in query}
    plan = SweepPlan.model_validate(values)
    return plan if "budget" in query else with_proposed_budget(plan), query.get("name", "")[:MAX_NAME]


def _target(text: str) -> Target:
    target = Target.parse(text)
    if target.python is not None:
        raise UserError("it names a program to run, which no address may")
    return target


def _input(text: str) -> Pipeline:
    kind, *options = text.split(",")
    values: dict[str, Any] = {"kind": kind}
    for option in options:
        name, _, value = option.partition("=")
        if name not in INPUT or name in values:
            raise UserError(f"“{option[:40]}” says nothing about an input pipeline")
        values[name] = SWITCHES.get(value, value)
        if name == "prefetch" and value != "auto":
            values[name] = _number("prefetch", value)
        elif name == "parallel_calls" and value != "auto":
            values[name] = _number("parallel_calls", value)
    return Pipeline.model_validate(values)


def _value(field: PlanField, text: str) -> float | bool:
    if field.type is not bool:
        return _number(field.key, text)
    if text not in SWITCHES:
        raise UserError(f"“{field.key}” is “{text[:40]}”; accepted are yes and no")
    return SWITCHES[text]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"“{name}” is “{text[:40]}”, which is no number") from None


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
    **{f"form_{field.key}": field.on_page(field.default) for field in (*INPUT.values(), *WRITTEN_FIELDS, *RANGE)},
    "form_mode": "train",
    "form_optimizer": "adam",
    "form_lengths": "",
    "form_batch_kind": "range",
    "form_prefetch": "resident",
    "form_budget": None,
    "form_name": "",
}
"""Keys of the fields, and their defaults."""


def usual_plan(here: machine.Machine) -> SweepPlan:
    """Return the plan of the default form on this machine."""
    return untouched(Workload(network=usual_network()), here.compared_targets())


def follow(here: machine.Machine) -> None:
    """Put the settings of the address into the fields, or say in one sentence why not."""
    query = {field: tuple(st.query_params.get_all(field)) for field in FIELDS if field in st.query_params}
    if query in st.session_state.get(WRITTEN, []) and not _went_back():
        return
    if not query and not _went_back():
        return
    try:
        plan, name = read(query, usual_plan(here))
        _put(plan, name, here)
    except UserError as error:
        why = str(error).rstrip(".")
        st.info(plain(f"The settings in this page’s address were left out: {why}."), icon=":material/link_off:")


def _went_back() -> bool:
    """Return whether the browser's Back or Forward set the address, which is then always applied."""
    return bool(getattr(get_script_run_ctx(), "is_history_navigation", False))


def put_into_address(plan: SweepPlan, name: str, here: machine.Machine) -> None:
    """Put the form's plan into the address, so that a reload or a link restores it."""
    query = written(plan, usual_plan(here), name)
    recent = st.session_state.get(WRITTEN, [])
    if not recent or recent[-1] != query:
        st.session_state[WRITTEN] = [*recent, query][-KEPT:]
    others = {key: st.query_params.get_all(key) for key in st.query_params if key not in FIELDS}
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
        "form_lengths": written_lengths(work.lengths),
        "form_batch_kind": "range" if is_range else "list",
        **{f"form_{field.key}": field.on_page(getattr(pipeline, field.name)) for field in INPUT.values()},
        **{f"form_{field.key}": field.on_page(getattr(plan, field.name)) for field in WRITTEN_FIELDS},
        "form_prefetch": reaching,
        "form_name": name,
    }
    if plan == with_proposed_budget(plan):
        values["form_budget"] = None
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
        "form_lengths": "several lengths",
        "form_batch_kind": "list of batch sizes",
        "form_parallel_calls": f"{now['form_parallel_calls']} parallel calls",
        "form_preprocess_us": f"{number(now['form_preprocess_us'] or 0.0)} µs preprocessing",
        "form_cache": "cache",
        "form_shuffle": "shuffle",
        "form_refine": "no refinement",
        "form_budget": f"{duration(now['form_budget'] or 0)} budget",
        "form_crossover_width": f"crossover interval {number(now['form_crossover_width'] or 0.0)} %",
        "form_step_width": f"step time interval {number(now['form_step_width'] or 0.0)} %",
        "form_name": "a name",
    }
    if now["form_prefetch"] not in PREFETCH:
        changed -= {f"form_{name}" for name in INPUT if name != "prefetch"}
    family = st.session_state.get("form_family", FIRST_FAMILY)
    return [*changed_sizes(family), *(word for key, word in words.items() if key in changed and word)]
