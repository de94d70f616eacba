"""``frontier``: how large depth, width and batch must be before the second target pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from core.analysis.frontier_answer import FrontierAnswer, FrontierSlice, frontier_answer, slice_of
from core.cli.devices import default_targets
from core.cli.files import BadInput, Failure, check_writable, write_file
from core.cli.networks import size_options, sizes_of
from core.cli.studying import Stopped, run_study
from core.cli.sweep import say
from core.cli.text import table
from core.environment import list_devices
from core.frontier import (
    AXES,
    DEFAULT_BUDGET_S,
    FrontierPlan,
    FrontierStudy,
    buildable_widths,
    growing_families,
    parse_values,
)
from core.frontier_export import frontier_data
from core.spec import Mode, Optimizer, Target, explain


def _plan_options(function: Any) -> Any:
    options = [
        click.option("--family", type=click.Choice(growing_families()), default="mlp", show_default=True),
        click.option("--depths", default="1:8", show_default=True, help="Range low:high (doubling) or list 1,2,3."),
        click.option("--widths", default="32:1024", show_default=True, help="The same for widths."),
        click.option(
            "--batches", default="1:1024:0.7", show_default=True, help="The same; 1:1024:2 is two a doubling."
        ),
        click.option("--at", "point", help="Your operating point: depth,width,batch, such as 2,512,32."),
        *size_options(),
        click.option("--mode", type=click.Choice(get_args(Mode)), default="train", show_default=True),
        click.option("--optimizer", type=click.Choice(get_args(Optimizer)), default="adam", show_default=True),
        click.option("--targets", nargs=2, help="Two targets, such as cpu,threads=1 gpu:0 (default: the machine's)."),
        click.option("--budget", "budget_s", type=float, default=DEFAULT_BUDGET_S, show_default=True, help="Seconds."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("frontier")
@_plan_options
@click.option("--out", type=click.Path(path_type=Path), help="Write what it says and what was measured, in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def frontier_command(context: click.Context, out: Path | None, as_json: bool, **_: Any) -> None:
    """Map where the second target is ahead over depth, width and batch, measuring mostly where the targets tie."""
    if out is not None:
        check_writable(out)
    plan = _plan(context.params)
    say(f"{plan.title}: {len(plan.settings)} settings, of which those that tell most are measured")
    study = _measure(plan)
    if study is None:
        say("Stopped before the first round; nothing was measured.")
        return
    try:
        answer = frontier_answer(study)
    except ValueError as error:
        raise Failure(str(error)) from None
    text = json.dumps(frontier_data(answer), ensure_ascii=False, allow_nan=False, indent=2)
    if out is not None:
        write_file(out, text + "\n")
    click.echo(text if as_json else frontier_text(answer))


def _plan(given: dict[str, Any]) -> FrontierPlan:
    """The plan of the flags. Raises BadInput with a sentence."""
    try:
        for name in ("depth", "width"):
            if given[name] is not None:
                raise ValueError(f"--{name} is an axis of the map; write --{name}s {given[name]} for a single value.")
        sizes = {n: v for n, v in sizes_of(given["family"], given).items() if n not in ("depth", "width")}
        depths, widths = parse_values(given["depths"], "depth"), parse_values(given["widths"], "width")
        if ":" in given["widths"]:  # a list is taken by its word
            widths = buildable_widths(given["family"], sizes, depths[0], widths)
        targets = tuple(Target.parse(text) for text in given["targets"] or ())
        return FrontierPlan.model_validate(
            {
                "family": given["family"],
                "sizes": tuple(sizes.items()),
                "depths": depths,
                "widths": widths,
                "batches": parse_values(given["batches"], "batch"),
                "mode": given["mode"],
                "optimizer": given["optimizer"],
                "targets": targets or default_targets(list_devices()),
                "point": _point(given["point"]),
                "budget_s": given["budget_s"],
            }
        )
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def _point(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != len(AXES) or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ValueError(f"--at is “{text[:40]}”; accepted are three whole numbers: depth,width,batch, as in 2,512,32.")
    return tuple(int(part) for part in parts)


def _measure(plan: FrontierPlan) -> FrontierStudy | None:
    """None when stopped before a round."""
    from core.measure.frontier import run_frontier

    try:
        return run_study(f"Frontier of {plan.title}", lambda tools: run_frontier(tools, plan))
    except Stopped:
        return None


def frontier_text(answer: FrontierAnswer) -> str:
    """Verdict and read-outs first, then the map where the read-outs stand, what failed, and how it was measured."""
    study, plan = answer.study, answer.study.plan
    held = plan.held_axis
    found = slice_of(answer, held, getattr(answer.at, held))
    said = [one.sentence for one in answer.readings if one.sentence not in answer.sentence]
    first, second = plan.target_names
    lines = [answer.sentence, *said, ""]
    lines.append(f"Speed-up of {second} over {first} at {held} {found.value:,.0f}; above 1 {second} is ahead.")
    lines.append("* measured there, the others interpolated; ? a tie cannot be excluded.")
    lines += [*_map(answer, found), ""]
    skipped = [one for one in answer.failed if one.outcome == "skipped"]
    for one in answer.failed:
        if one.outcome != "skipped":
            lines.append(f"{one.setting.words} on {one.target}: {one.outcome.replace('_', ' ')}. {one.reason}".rstrip())
    if skipped:
        lines.append(f"{len(skipped):,} settings were skipped. {skipped[0].reason}")
    lines.append(answer.reason)
    lines.append(
        f"All times are {study.label}: {plan.title}; {len(study.rounds):,} rounds, {study.elapsed_s:.0f} s, "
        f"{study.status}, {study.created_at}"
    )
    lines += [f"Warning ({warning.code}): {warning.text}" for warning in study.warnings]
    return "\n".join(lines)


def _map(answer: FrontierAnswer, found: FrontierSlice) -> list[str]:
    columns = (f"{found.y_axis} \\ {found.x_axis}", *(f"{x:,}" for x in found.x))
    rows = []
    for i, y in enumerate(found.y):
        cells = []
        for j in range(len(found.x)):
            mean, sd = float(found.mean[i, j]), float(found.sd[i, j])
            if mean != mean:  # NaN: cannot run
                cells.append("-")
                continue
            marks = ("*" if found.measured[i, j] else "") + ("?" if abs(mean) <= answer.band * sd else "")
            cells.append(f"{2**mean:.2f}{marks}")
        rows.append((f"{y:,}", *cells))
    return table(columns, rows)
