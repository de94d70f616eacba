"""The flag ``--model package.module:function``: user code, which only a worker imports, and only with this flag."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from core.base.schema import UserError, explain
from core.cli.files import BadInput
from core.networks.families import Network
from core.networks.families.code import Code, CodeError, check_entry, refuse_code
from core.studies.deadlines import first_s
from core.worker.protocol import Check, Describe, Described, Launcher, go_on
from core.workload.spec import Target

USUAL_BUDGET_S = 90.0  # for commands without a budget
NATIVE: Final = "pytorch"

model_permission = click.option(
    "--model", help="Let workers import the code that the run's network is built by, package.module:function."
)
"""For commands that take a run: the network is the run's, and the flag permits importing its code."""


def network_from_code(
    entry: str,
    budget_s: float | None = None,
    targets: Iterable[str] = (),
    folder: str | None = None,
    apart_from: str | None = None,
    check: Check = go_on,
) -> Network:
    """Return the network that the function builds, as described by a worker that called it.

    It is native PyTorch if one of the targets is, else a Keras network. Its module is looked for in ``folder`` first,
    by default the current one, and nothing may be imported from ``apart_from``. The budget bounds the wait, and
    ``check`` may end it. Raises BadInput.
    """
    folder = folder or str(Path.cwd())
    try:
        target = _describing(targets)
        request = Describe(entry=check_entry(entry), folder=folder, apart_from=apart_from)
        described = _describe(request, budget_s or USUAL_BUDGET_S, target, check)
        return described.network(entry, folder, target.framework)
    except ValidationError as error:
        raise BadInput(f"The model of {entry} cannot be measured: {explain(error)}") from None
    except UserError as error:
        raise BadInput(str(error)) from None


def _describing(targets: Iterable[str]) -> Target:
    """Return the CPU target on which to call a function that these targets will run, with their interpreter."""
    parsed = [Target.parse(text) for text in targets]
    usual = Target()
    native = any(target.framework == NATIVE for target in parsed)
    framework = NATIVE if native else usual.framework
    python = next((target.python for target in parsed if target.framework == framework), None)
    return Target(framework=framework, python=python)


def _describe(request: Describe, budget_s: float, target: Target, check: Check) -> Described:
    from core.worker.process import launch_processes

    launch = functools.partial(launch_processes, allow_code=True, allow_python=_named([target]))
    (worker,) = launch((target,), first_s(budget_s), check, folders=(request.folder,))
    try:
        return worker.ask(request, first_s(budget_s))
    finally:
        worker.close()


def launcher_of(targets: Sequence[Target]) -> Launcher:
    """Return the launcher for targets given to the command itself, with the interpreters that they name."""
    from core.worker.process import launch_processes

    return functools.partial(launch_processes, allow_python=True) if _named(targets) else launch_processes


def check_same_code(network: Network, model: str) -> Code:
    """Return the network if it is built by the code named ``model``. Raises BadInput if by other code, or none."""
    if not isinstance(network, Code):
        raise BadInput(f"The network is {network.name}, which no code builds; leave --model out.")
    if model != network.entry:
        raise BadInput(
            f"The network is built by {network.entry}, not by {model[:80]}; --model must name the same code."
        )
    return network


def _named(targets: Sequence[Target]) -> bool:
    return any(target.python is not None for target in targets)


def launcher_for(network: Network, model: str | None, targets: Sequence[Target] = ()) -> Launcher:
    """Return the launcher of a command with the given ``--model``; workers import code only if it names theirs.

    ``targets`` are those given to the command itself, whose interpreters may be run; a stored run's may not. Raises
    BadInput if the plan or run names code but the command does not, or the other way round.
    """
    from core.worker.process import launch_processes

    if model is None:
        try:
            refuse_code(network)
        except CodeError as error:
            raise BadInput(str(error)) from None
        return launcher_of(targets)
    folder = check_same_code(network, model).folder
    if folder != str(Path.cwd()):
        raise BadInput(f"{model} was found in {folder}; run the command there.")
    if _named(targets):
        return functools.partial(launch_processes, allow_code=True, allow_python=True)
    return functools.partial(launch_processes, allow_code=True)
