"""The real supervisor on a simulated machine."""

from typing import Any

from core.base.evidence import Process, Setup, Status
from core.rounds.plan import SweepPlan
from core.rounds.run import Round, Run
from core.studies.sweep.supervisor import run_sweep
from core.workload.spec import Target, Workload, parse_batches
from simulated.simulation import Machine
from simulated.tools import tools_for


class MemoryRecorder:
    """Keeps records in lists, as the store would."""

    def __init__(self) -> None:
        self.begun: Run | None = None
        self.rounds: list[Round] = []
        self.others: list[Any] = []
        self.finished: tuple[Status, float] | None = None
        self.deleted = False

    def begin(self, run: Run) -> None:
        self.begun = run

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:
        assert self.begun is not None
        assert run_id == self.begun.id
        for record in records:
            (self.rounds if isinstance(record, Round) else self.others).append(record)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        assert self.begun is not None
        assert run_id == self.begun.id
        self.finished = (status, elapsed_s)

    def delete(self, run_id: str) -> None:
        assert self.begun is not None
        assert run_id == self.begun.id
        self.deleted = True

    def kinds(self) -> set[type]:
        return {type(record) for record in self.others} & {Process, Setup}


TARGETS = (
    Target(), Target(device="gpu:0"), Target(device="gpu:0", precision="mixed_float16"),
    Target(threads=1), Target(threads=2), Target(execution="xla"),
)  # fmt: skip


def plan(batches: str = "1:1024", count: int = 2, **changes: Any) -> SweepPlan:
    """Return a plan of the first ``count`` of six targets."""
    usual = {"workload": Workload(network="784-512-512-10"), "targets": TARGETS[:count]}
    return SweepPlan(batches=parse_batches(batches), **{**usual, **changes})


def new_run(plan: SweepPlan) -> Run:
    """Return a run to be filled; labelled modelled, since a simulation fills it."""
    return Run(
        id="simulated-1", name="Simulated sweep", created_at="2026-01-01T00:00:00+00:00", label="modelled",
        status="running", target_names=plan.target_names, plan=plan,
    )  # fmt: skip


def sweep(machine: Machine, plan: SweepPlan, **options: Any) -> Run:
    """Run the whole sweep on the machine's virtual clock."""
    recorder = options.pop("recorder", None) or MemoryRecorder()
    return run_sweep(tools_for(machine, recorder=recorder, **options), new_run(plan))
