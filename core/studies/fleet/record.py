"""Plan and record of a fleet run: one sweep on several machines, each with a run of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from core.base.fields import About
from core.base.schema import Currency, Frozen, PerHour, PriceDay, UserError
from core.base.text import shown
from core.rounds.plan import SweepPlan
from core.rounds.run import MAX_NAME, Run
from core.rounds.study import Study
from core.workload.spec import MAX_BUDGET_S

MAX_MACHINES = 1_000
MAX_LABELS = 64
Label = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Labels = Annotated[dict[Label, Label], Field(max_length=MAX_LABELS)]
MachineState = Literal["waiting", "starting", "measuring", "finished", "failed", "lost", "refused", "cancelled"]
"""*waiting* for its machine to be free, *lost* with its node (retried once), *refused* if the machine cannot be
measured on as it is; a machine that ended otherwise keeps the rounds that were received."""
ENDED: tuple[MachineState, ...] = ("finished", "failed", "lost", "refused", "cancelled")


class MachinePrice(Frozen):
    """Price of an hour of one machine, and its date."""

    per_hour: PerHour
    currency: Currency
    dated: PriceDay


class FleetPlan(Frozen):
    """Plan of a fleet run: ``sweep`` on one machine per entry of ``machines``, whose labels include all of the entry.

    With ``each`` instead: on one machine per value of that label. With neither: on every machine of the cluster.
    ``address`` is Ray's (``ray://host:port`` or ``auto``); None for runs collected from files. ``prices`` are by
    machine name. A machine may stay busy with other work for ``wait_s``; then it is not measured.
    """

    sweep: SweepPlan
    machines: Annotated[tuple[Labels, ...], Field(max_length=MAX_MACHINES)] = ()
    each: Annotated[
        Label | None, About("Label that tells the kinds apart", "One machine for each value of this label.")
    ] = None
    address: Annotated[str, Field(max_length=MAX_NAME)] | None = None
    prices: Annotated[dict[Label, MachinePrice], Field(max_length=MAX_MACHINES, default_factory=dict)]
    wait_s: Annotated[
        float,
        Field(gt=0, le=MAX_BUDGET_S),
        About("Wait", "How long a machine may stay busy with other work.", unit="seconds"),
    ] = 3600.0

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        if self.machines and self.each:
            raise ValueError("machines and each both choose machines; give one of them")
        return self


class FleetMachine(Frozen):
    """One machine of a fleet. ``name`` is unique in it; ``run_id`` is the run of its rounds, once there is one.

    ``reason`` explains in a sentence why it waits or has no complete run; ``starts`` counts the starts of its
    measurement and ``rounds`` the rounds of its run known here.
    """

    name: Label
    labels: Labels = Field(default_factory=dict)
    state: MachineState = "waiting"
    reason: str = ""
    run_id: str | None = None
    starts: Annotated[int, Field(ge=0)] = 0
    rounds: Annotated[int, Field(ge=0)] = 0
    waited_s: Annotated[float, Field(ge=0)] = 0.0


class FleetStudy(Study):
    """Record of a fleet run. ``runs`` holds the whole run of each machine in a file; in the store it is empty, since
    each is kept separately.
    """

    noun: ClassVar[str] = "fleet run"

    plan: FleetPlan
    machines: Annotated[tuple[FleetMachine, ...], Field(max_length=MAX_MACHINES)] = ()
    runs: Annotated[tuple[Run, ...], Field(max_length=MAX_MACHINES)] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [machine.name for machine in self.machines]
        if len(set(names)) != len(names):
            raise ValueError("two machines have the same name")
        return self

    @property
    def title(self) -> str:
        count = len(self.machines)
        return f"{self.plan.sweep.title} on {count:,} machine{'s' * (count != 1)}"

    @property
    def part_ids(self) -> tuple[str, ...]:
        """Ids of the machines' runs."""
        return tuple(machine.run_id for machine in self.machines if machine.run_id is not None)

    def kept_apart(self, ids: Mapping[str, str]) -> Self:
        """Return the study without the runs themselves, which are kept elsewhere under these ids."""
        moved = (
            machine.model_copy(update={"run_id": None if machine.run_id is None else ids.get(machine.run_id)})
            for machine in self.machines
        )
        return self.model_copy(update={"machines": tuple(moved), "runs": ()})

    def run_of(self, machine: FleetMachine) -> Run | None:
        """Return a machine's run if this record holds it, else None."""
        return next((run for run in self.runs if run.id == machine.run_id), None)


def labels(text: str) -> dict[str, str]:
    """Parse labels such as ``gpu=a100,zone=b``. Raises UserError."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and value.strip() for name, _, value in pairs):
        raise UserError(f"“{shown(text)}” names no labels; accepted is label=value, several divided by commas.")
    return {name.strip(): value.strip() for name, _, value in pairs}
