"""Memory studies."""

from collections import Counter
from typing import Any

from core.studies.memory.record import MemoryPlan, MemoryStudy
from core.studies.memory.run import MemorySearch, run_memory_study
from core.workload.spec import Target, Workload
from simulated.kinds import GPU, RUN, Case, Scenario
from simulated.memories import GB, MemoryMachine, linear, make_memory_study
from simulated.runs import make_run

WORKLOAD = Workload(network="784-512-512-10")


def of_run(target: int = 0, limit_bytes: int = 2 * GB, **changes: Any) -> MemoryStudy:
    """Return a memory study of the run: batch 500 fits, 520 ran out."""
    assert RUN.plan is not None
    workload, on = RUN.plan.workload, RUN.plan.targets[target]
    plan = MemoryPlan(workload=workload, target=on, limit_bytes=limit_bytes, run_id=RUN.id)
    made = make_memory_study(linear(50e6, 2.6e6), (64, 500, 520), workload=workload, limit_bytes=limit_bytes)
    return made.model_copy(update={"plan": plan, **changes})


def _small() -> MemoryStudy:
    plan = make_run(batches=(1, 8, 64, 256), with_failures=True).plan
    assert plan is not None
    made = make_memory_study(linear(30e6, 20e3), workload=plan.workload)
    return made.model_copy(update={"plan": made.plan.model_copy(update={"target": plan.targets[0]})})


def _search(**changes: Any) -> MemorySearch:
    return MemorySearch(MemoryPlan(workload=WORKLOAD, target=Target(), limit_bytes=2 * GB, **changes))


def _scenario() -> Scenario:
    machine = MemoryMachine(linear(400e6, 1.7e6))
    return Scenario(
        kind="memory", machine=machine, plan=_search(budget_s=90.0), budget_s=90.0, size=1,
        run=lambda tools, search: run_memory_study(tools, search, machine.available_bytes),
    )  # fmt: skip


def _kept(record: Any, answered: Counter[str], _: int) -> bool:
    return (0 if record is None else len(record.probes)) >= answered["prepare"]


CASE = Case(
    study=of_run,
    small=_small,
    on_gpu=lambda: MemorySearch(MemoryPlan(workload=Workload(network="784-128-10"), target=GPU, limit_bytes=10**9)),
    machine=lambda seed: MemoryMachine(linear(30e6, 20e3), noise=0.01, seed=seed),
    plan=_search,
    kept=_kept,
    scenario=_scenario,
    command="memory --preset 784-512-512-10 --target cpu --limit 1.2GB --budget 200",
)
