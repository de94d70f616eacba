"""The ``frontier`` command: the depth, width and batch from which the second target is faster."""

from __future__ import annotations

from typing import Any

import click

from core.base.schema import UserError
from core.cli.choices import workload_options
from core.cli.files import refusing
from core.cli.model_code import launcher_of
from core.cli.networks import size_options, sizes_of
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.machine.environment import list_devices
from core.studies.frontier.kind import FRONTIER
from core.studies.frontier.record import AXES, FrontierPlan, buildable_widths, growing_families, parse_values
from core.workload.spec import Target


@study_command(FRONTIER)
@click.option("--family", type=click.Choice(growing_families()), default="mlp", show_default=True)
@click.option("--depths", default="1:8", show_default=True, help="Range low:high (doubling) or list 1,2,3.")
@click.option("--widths", default="32:1024", show_default=True, help="The same for widths.")
@click.option("--batches", default="1:1024:0.7", show_default=True, help="The same; 1:1024:2 is two a doubling.")
@click.option("--at", "point", help="Your operating point: depth,width,batch, such as 2,512,32.")
@size_options()
@workload_options
@click.option("--targets", nargs=2, help="Two targets, such as cpu,threads=1 gpu:0 (default: the machine's).")
@plan_options(FrontierPlan, "budget_s")
def frontier_command(flags: dict[str, Any], _: History) -> Asked:
    """Map where the second target is faster over depth, width and batch, measuring mostly where it is not clear."""
    with refusing():
        plan = _plan(flags)
    says = f"{plan.title}: {len(plan.settings)} settings, of which those that tell most are measured"
    return Asked(plan, says=(says,), launcher=launcher_of(plan.targets))


def _plan(flags: dict[str, Any]) -> FrontierPlan:
    for name in ("depth", "width"):
        if flags[name] is not None:
            raise UserError(f"--{name} is an axis of the map; write --{name}s {flags[name]} for a single value.")
    sizes = {n: v for n, v in sizes_of(flags["family"], flags).items() if n not in ("depth", "width")}
    depths, widths = parse_values(flags["depths"], "depth"), parse_values(flags["widths"], "width")
    if ":" in flags["widths"]:  # a list is taken literally
        widths = buildable_widths(flags["family"], sizes, depths[0], widths)
    targets = tuple(Target.parse(text) for text in flags["targets"] or ())
    return FrontierPlan.model_validate(
        {
            "family": flags["family"],
            "sizes": tuple(sizes.items()),
            "depths": depths,
            "widths": widths,
            "batches": parse_values(flags["batches"], "batch"),
            "mode": flags["mode"],
            "optimizer": flags["optimizer"],
            "targets": targets or list_devices().default_targets(),
            "point": _point(flags["point"]),
            "budget_s": flags["budget_s"],
        }
    )


def _point(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != len(AXES) or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise UserError(f"--at is “{text[:40]}”; accepted are three whole numbers: depth,width,batch, as in 2,512,32.")
    return tuple(int(part) for part in parts)
