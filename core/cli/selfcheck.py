"""The ``selfcheck`` command: tests what the numbers rest on, on this machine, and writes a file for an issue report."""

from __future__ import annotations

from pathlib import Path

import click

from core.base.text import json_text
from core.cli.files import FILE, BadInput, check_writable, conclude, refusing, write_out
from core.cli.study_command import Asked, measured_part
from core.machine.environment import list_devices
from core.studies.selfcheck.checks import run_checks
from core.studies.selfcheck.export import self_check_data, self_check_text
from core.studies.selfcheck.run import SELF_CHECK, SelfCheckPlan
from core.workload.spec import Target


@click.command("selfcheck")
@click.option("--target", help="Such as cpu,threads=1 or gpu:0 (default: the GPU, else the CPU).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, which is what --out writes.")
@click.option("--out", type=FILE, help="Write what an issue report needs, in JSON; nothing private is in it.")
def selfcheck_command(target: str | None, as_json: bool, out: Path | None) -> None:
    """Check, within two minutes, what the numbers rest on here; the first thing to run on a machine with a GPU.

    Each check holds, fails, or cannot be seen here. Exit status 1 where one fails. Nothing is kept in the history.
    """
    if out is not None:
        check_writable(out)
    with refusing():
        plan = SelfCheckPlan(_default() if target is None else _host(Target.parse(target)))
    record = measured_part(SELF_CHECK, Asked(plan), store=False)
    checks = run_checks(record)
    data = self_check_data(record, checks)
    unwritten = write_out(out, json_text(data))
    conclude(self_check_text(record, checks), data if as_json else None, unwritten)
    if any(check.status == "fails" for check in checks):
        raise click.exceptions.Exit(1)


def _default() -> Target:
    """Return the first GPU the driver shows, even one that TensorFlow cannot use: a check then reports why."""
    return Target(device="gpu:0") if list_devices().gpus else Target()


def _host(target: Target) -> Target:
    """Return the target's device and threads. Raises BadInput if it has any other option, or several devices."""
    if target != (host := Target(device=target.device, threads=target.threads)):
        raise BadInput(f"selfcheck tries each way of executing by itself; accepted is a device, such as {host}.")
    if target.replicas > 1:
        raise BadInput(f"selfcheck looks at one device at a time; choose {target.devices[0]} instead of {target}.")
    return host
