"""Fleet runs with a known truth, made from seeds: nothing here was measured, and the names say so."""

from collections.abc import Sequence

from core.rounds.answer.condensed import CondensedRun, condense
from core.rounds.run import Run
from core.studies.fleet.record import FleetMachine, FleetPlan, FleetStudy, MachinePrice
from simulated.runs import BATCHES, make_plan, make_run

SMALL = (0.3, 0.02)
LARGE = (0.8, 0.004)
MIDDLE = (0.5, 0.008)
"""Fixed cost (ms) and cost per sample (ms) of the simulated machines' first target."""
Shape = tuple[float, float]


def machine_run(
    number: int, shape: Shape, second: Shape | None = None, batches: tuple[int, ...] = BATCHES, processes: int = 5
) -> Run:
    """Return the run of one simulated machine, with one or two targets."""
    shapes = (shape,) if second is None else (shape, second)
    run = make_run(
        1000 + number, batches=batches, processes=processes, passes=1, noise=0.01,
        floors_ms=tuple(floor for floor, _ in shapes), slopes_ms=tuple(slope for _, slope in shapes),
    )  # fmt: skip
    assert run.environment is not None
    machine = {"hostname_hash": f"sim{number:05d}", "cpu": f"Simulated CPU {number}"}
    return run.model_copy(
        update={
            "id": f"20260105-sim{number:04d}",
            "name": f"simulated {number}",
            "created_at": f"2026-01-05T09:{number % 60:02d}:00+00:00",
            "environment": run.environment.model_copy(update=machine),
        }
    )


def make_fleet(
    shapes: Sequence[Shape] = (SMALL, MIDDLE, LARGE),
    second: Sequence[Shape] | None = None,
    prices: dict[str, float] | None = None,
    absent: int = 0,
    batches: tuple[int, ...] = BATCHES,
) -> FleetStudy:
    """Return a collected fleet run of machines ``sim-0``, ``sim-1``, … with their runs in it.

    ``absent`` more machines were lost.
    """
    targets: Sequence[tuple[float, float] | None] = second or [None] * len(shapes)
    runs = tuple(
        machine_run(n, shape, other, batches) for n, (shape, other) in enumerate(zip(shapes, targets, strict=True))
    )
    machines = tuple(
        FleetMachine(name=f"sim-{n}", labels={"kind": f"k{n}"}, state="finished", run_id=run.id, starts=1)
        for n, run in enumerate(runs)
    )
    lost = tuple(
        FleetMachine(name=f"lost-{n}", state="lost", reason="Its node went away, and did not come back.", starts=2)
        for n in range(absent)
    )
    priced = {
        name: MachinePrice(per_hour=amount, currency="EUR", dated="2026-11-01")
        for name, amount in (prices or {}).items()
    }
    plan = FleetPlan(sweep=make_plan(batches, 1 if second is None else 2), prices=priced)
    return FleetStudy(
        label="recorded", created_at="2026-01-05T09:00:00+00:00", elapsed_s=60.0, plan=plan, machines=machines + lost,
        runs=runs,
    )  # fmt: skip


def condensed(study: FleetStudy) -> dict[str, CondensedRun]:
    """Return the condensed runs of a fleet that contains its runs."""
    return {run.id: condense(run) for run in study.runs}
