"""``sweep --compare``: a set of targets made from this machine's devices."""

from importlib import import_module
from typing import Any

import pytest

from core.base.schema import UserError
from core.machine.environment import Devices
from core.rounds.plan import SweepPlan
from core.studies.sweep.presets import look_plan
from simulated.commands import TARGETS, Command, refused

COMMAND: Any = import_module("core.cli.sweep")  # in the package this name is the command itself
PLANNED = "That was the plan."


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMMAND, "list_devices", lambda: Devices(cpu="CPU", usable_cores=2))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[SweepPlan]:
    """Record the plan of a command, which then ends."""
    plans: list[SweepPlan] = []

    def stop(plan: SweepPlan, *_: object) -> None:
        plans.append(plan)
        raise UserError(PLANNED)

    monkeypatch.setattr(COMMAND, "check_fits", stop)
    return plans


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--compare", "lots"), "'machine', 'precisions', 'frameworks', 'formats', 'cpu'"),
        (("--compare", "machine", *TARGETS), "--compare chooses the targets; leave out --targets."),
        (("--compare", "precisions"), "“GPU precisions” needs a GPU, and none was found"),
        (("--compare", "formats", "--mode", "train"), "int8 is for inference"),
    ],
)
def test_what_cannot_be_compared_is_refused(cli: Command, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(cli("sweep", *arguments))


@pytest.mark.parametrize(
    ("arguments", "targets", "mode"),
    [
        ((), ["cpu,threads=1", "cpu,threads=2"], "train"),
        (("--compare", "machine"), ["cpu,threads=1", "cpu,threads=2", "cpu,threads=2,execution=xla"], "train"),
        (("--compare", "frameworks", "--mode", "infer"), ["cpu", "cpu,framework=jax", "cpu,framework=torch"], "infer"),
        (("--compare", "formats"), ["cpu", "cpu,precision=int8", "cpu,framework=litert",
                                    "cpu,framework=litert,precision=int8"], "infer"),
    ],
)  # fmt: skip
def test_a_preset_gives_the_targets_and_its_mode(
    cli: Command, planned: list[SweepPlan], arguments: tuple[str, ...], targets: list[str], mode: str
) -> None:
    assert PLANNED in refused(cli("sweep", *arguments))
    (plan,) = planned
    assert list(plan.target_names) == targets
    assert plan.workload.mode == mode


def test_the_short_look_at_the_cpu_is_the_one_that_pages_propose(cli: Command, planned: list[SweepPlan]) -> None:
    for flags in ((), ("--batches", "1:64", "--budget", "20")):
        assert PLANNED in refused(cli("sweep", "--compare", "cpu", *flags))
    look, own = planned
    assert look == look_plan(look.workload, 2)
    assert (own.targets, own.batches[-1], own.budget_s) == (look.targets, 64, 20)
