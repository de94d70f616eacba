"""Flags of ``sweep`` and their conversion to a plan; limits are in :mod:`core.workload.spec`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource
from pydantic import ValidationError

from core.base.money import NOTATION, VARIABLE, Money, usual
from core.base.schema import UserError, explain
from core.base.text import shown
from core.cli.files import FILE, BadInput, F, read_bytes, refusing, together
from core.cli.networks import flag_of, network_of, network_options
from core.cli.plan_fields import plan_options
from core.rounds.plan import SweepPlan
from core.studies.sweep.proposal import with_proposed_budget
from core.userdata.source import check_data, check_fits
from core.workload.lengths import parse_lengths
from core.workload.spec import Mode, Optimizer, Pipeline, PipelineKind, Target, Workload, parse_batches

MAX_PLAN_BYTES = 1_000_000
DEFAULT_BATCHES = "1:1024"
OF_THE_PLAN = ("refine", "budget_s", "step_width", "crossover_width", "margin", "trace")
FLAGS = ("cache", "shuffle", "preprocess_python")  # boolean flags of a pipeline
NOT_OF_THE_PLAN = {"plan_file", "out", "name", "store", "model", "as_json"}


workload_options = together(
    click.option("--mode", type=click.Choice(get_args(Mode)), show_default="train; infer for a token decoder"),
    click.option("--optimizer", type=click.Choice(get_args(Optimizer)), default="adam", show_default=True),
)
"""Flags of the mode and the optimizer."""


def input_options(usual: str | None, preprocess_us: str) -> Callable[[F], F]:
    """Return a decorator with the flags of a tf.data pipeline; the arguments are defaults."""
    return together(
        plan_options(Pipeline, "prefetch", "parallel_calls", type=str, default=usual),
        plan_options(Pipeline, "cache", "shuffle"),
        plan_options(Pipeline, "preprocess_us", default=None, show_default=preprocess_us),
        plan_options(Pipeline, "preprocess_python", "data"),
    )


sweep_options = together(
    click.option("--plan", "plan_file", type=FILE, help="All choices from a plan in JSON."),
    network_options(),
    workload_options,
    plan_options(Workload, "lengths", type=str, default=None),
    click.option(
        "--targets",
        multiple=True,
        help="One to six targets, such as cpu,threads=1 gpu:0; the first is the baseline (default: the machine's).",
    ),
    plan_options(SweepPlan, "batches", default=DEFAULT_BATCHES),
    plan_options(SweepPlan, "refine"),
    plan_options(SweepPlan, "budget_s", default=None),
    plan_options(SweepPlan, "step_width", "crossover_width", "margin"),
    click.option(
        "--pipeline", type=click.Choice(get_args(PipelineKind)), show_default="resident; host for several input lengths"
    ),
    input_options(None, "0"),
    plan_options(SweepPlan, "trace"),
)
"""Every choice of a plan as a flag."""


def workload_of(flags: dict[str, Any]) -> Workload:
    """Return the workload from the flags. Raises UserError."""
    values = {"network": network_of(flags), "mode": flags["mode"], "optimizer": flags["optimizer"]}
    return Workload.model_validate(values | {"lengths": parse_lengths(flags.get("lengths") or "")})


def make_plan(context: click.Context, default_targets: Callable[[], tuple[Target, ...]]) -> SweepPlan:
    """Return the plan from the flags, or from the file given by ``--plan``. Raises BadInput."""
    flags = context.params
    if flags["plan_file"] is not None:
        return _plan_of_file(context, flags["plan_file"])
    kind = {"kind": flags["pipeline"]} if flags["pipeline"] else {}
    with refusing():
        data: dict[str, Any] = {
            "workload": workload_of(flags),
            "targets": tuple(map(Target.parse, flags["targets"])) or default_targets(),
            "batches": parse_batches(flags["batches"]),
            "pipeline": kind | pipeline_options(flags) or None,
            **{name: flags[name] for name in OF_THE_PLAN},
        }
        plan = SweepPlan.model_validate({field: value for field, value in data.items() if value is not None})
        plan = plan if flags["budget_s"] is not None else with_proposed_budget(plan)
        return plan if flags["data"] is None else _with_data(plan, flags["data"])


def _with_data(plan: SweepPlan, path: str) -> SweepPlan:
    """Return the plan with the data at a path, made absolute. Raises UserError if they cannot be used."""
    source = check_data(path)
    check_fits(source, plan.workload)
    pipeline = Pipeline.model_validate(plan.pipeline.model_dump() | {"data": source.path})
    return plan.model_copy(update={"pipeline": pipeline})


def pipeline_options(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a Pipeline whose flags are given. Raises UserError."""
    options: dict[str, Any] = {name: True for name in FLAGS if flags[name]}
    for name in ("prefetch", "parallel_calls"):
        if (text := flags[name]) is not None:
            options[name] = _calls(name, text)
    if flags["preprocess_us"] is not None:
        options["preprocess_us"] = flags["preprocess_us"]
    return options


def _calls(name: str, text: str) -> int | str:
    if text == "auto":
        return text
    if text == "off" and name == "prefetch":
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        words = "off, a number of batches, or auto" if name == "prefetch" else "a number, or auto"
        raise UserError(f"{flag_of(name)} is “{text[:40]}”; accepted is {words}.")
    return int(text)


def _plan_of_file(context: click.Context, path: Path) -> SweepPlan:
    chosen = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.name not in NOT_OF_THE_PLAN
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if chosen:
        raise BadInput(f"--plan holds all choices; leave out {', '.join(chosen)}, or change the file.")
    return read_plan(path)


def read_plan(path: Path) -> SweepPlan:
    """Return the plan in a file. Raises BadInput."""
    data = read_bytes(path, MAX_PLAN_BYTES, "a plan")
    try:
        return SweepPlan.read_json(data)
    except ValidationError as error:
        raise BadInput(f"{shown(str(path))} is no plan of this version. {explain(error)}") from None
    except ValueError as error:
        raise BadInput(f"{shown(str(path))} is no plan. {error}") from None


def _chosen(_context: click.Context, _option: click.Parameter, text: str | None) -> Money:
    with refusing():
        return usual() if text is None else Money.parse(text)


currency_option = click.option(
    "--currency", "money", callback=_chosen, help=f"Of all prices: {NOTATION} (default: {VARIABLE}, else USD)."
)
