"""The Sweep form in the page's address, in the notation of the command line. Pure: no Streamlit.

An address holds what differs from the default plan, and then always the targets, since another machine has other
default targets. It holds no network from a file, and names neither a program to run nor data to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from core.families import network_from_name
from core.families.own import Own
from core.schema import UserError, explain
from core.spec import Pipeline, Target, geometric_grid, parse_batches
from core.studies.sweep.plan import SweepPlan

Query = dict[str, tuple[str, ...]]
"""The values of each name in an address."""
FIELDS = (
    "network", "mode", "optimizer", "target", "batches", "input", "refine", "budget", "crossover_width", "step_width",
    "name",
)  # fmt: skip
MAX_VALUE = 600
"""Maximum length of one value, in characters."""
MAX_NAME = 200
SWITCHES = {"yes": True, "no": False}
OF_INPUT = ("prefetch", "parallel_calls", "preprocess_us", "preprocess_python", "cache", "shuffle")
"""Options of a tf.data pipeline allowed in an address; never a path."""


def written(plan: SweepPlan, usual: SweepPlan, name: str = "") -> Query:
    """Return the address of a plan relative to the default one ``usual``; empty if they are equal."""
    untouched, named = _said(usual), {"name": name[:MAX_NAME]} if name else {}
    changed = {field: value for field, value in (_said(plan) | named).items() if untouched.get(field) != value}
    if not changed and plan.targets == usual.targets:
        return {}
    return {field: (value,) for field, value in changed.items()} | {"target": tuple(map(str, plan.targets))}


def _said(plan: SweepPlan) -> dict[str, str]:
    work = plan.workload
    network = {} if isinstance(work.network, Own) else {"network": work.network.name}
    return network | {
        "mode": work.mode,
        "optimizer": work.optimizer,
        "batches": batches_words(plan.batches),
        "input": input_words(plan.pipeline),
        "refine": "yes" if plan.refine else "no",
        "budget": f"{plan.budget_s:g}",
        "crossover_width": f"{plan.crossover_width:g}",
        "step_width": f"{plan.step_width:g}",
    }


def batches_words(batches: Sequence[int]) -> str:
    """Return ``1:1024`` for doublings, else a list."""
    low, high = batches[0], batches[-1]
    return f"{low}:{high}" if tuple(batches) == geometric_grid(low, high) else ",".join(map(str, batches))


def input_words(pipeline: Pipeline) -> str:
    """Return ``resident``, ``host``, or ``tfdata,prefetch=2,cache=yes``."""
    plain = Pipeline(kind=pipeline.kind)
    changed = [name for name in OF_INPUT if getattr(pipeline, name) != getattr(plain, name)]
    return ",".join([pipeline.kind, *(f"{name}={_word(getattr(pipeline, name))}" for name in changed)])


def _word(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:g}" if value != "auto" else value


def read(query: Mapping[str, Sequence[str]], usual: SweepPlan) -> tuple[SweepPlan, str]:
    """Return the plan in an address, with defaults for what it omits, and the run's name.

    Raises UserError with the reason why the address cannot be used.
    """
    given = {field: list(values) for field, values in query.items() if field in FIELDS}
    for field, values in given.items():
        if any(len(value) > MAX_VALUE or not value.isprintable() for value in values):
            raise UserError(f"it has a value of “{field}” that is too long or cannot be shown")
        if field != "target" and len(values) > 1:
            raise UserError(f"it gives “{field}” more than once")
    try:
        return _plan({field: values[-1] for field, values in given.items()}, given.get("target"), usual)
    except ValidationError as error:
        raise UserError(explain(error)) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _plan(one: Mapping[str, str], targets: Sequence[str] | None, usual: SweepPlan) -> tuple[SweepPlan, str]:
    values = {name: getattr(usual, name) for name in SweepPlan.model_fields}
    work = {name: getattr(usual.workload, name) for name in ("network", "mode", "optimizer")}
    if "network" in one:
        work["network"] = network_from_name(one["network"])
    work |= {name: one[name] for name in ("mode", "optimizer") if name in one}
    values["workload"] = work
    if targets is not None:
        values["targets"] = tuple(map(_target, targets))
    if "batches" in one:
        values["batches"] = parse_batches(one["batches"])
    if "input" in one:
        values["pipeline"] = _input(one["input"])
    if "refine" in one:
        values["refine"] = _switch("refine", one["refine"])
    numbers = {"budget": "budget_s", "crossover_width": "crossover_width", "step_width": "step_width"}
    values |= {field: _number(name, one[name]) for name, field in numbers.items() if name in one}
    return SweepPlan.model_validate(values), one.get("name", "")[:MAX_NAME]


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
        if name not in OF_INPUT or name in values:
            raise UserError(f"“{option[:40]}” says nothing about an input pipeline")
        values[name] = SWITCHES.get(value, value)
        if name == "prefetch" and value != "auto":
            values[name] = _number("prefetch", value)
        elif name == "parallel_calls" and value != "auto":
            values[name] = _number("parallel_calls", value)
    return Pipeline.model_validate(values)


def _switch(name: str, text: str) -> bool:
    if text not in SWITCHES:
        raise UserError(f"“{name}” is “{text[:40]}”; accepted are yes and no")
    return SWITCHES[text]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"“{name}” is “{text[:40]}”, which is no number") from None
