"""One fleet run of runs that were measured machine by machine and came in files: the same answer without a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from core.evidence import Environment, Warning
from core.numbers import counted
from core.schema import UserError
from core.studies.fleet.record import MAX_MACHINES, FleetMachine, FleetPlan, FleetStudy, MachinePrice, MachineState
from core.studies.sweep.hindered import hindrance
from core.studies.sweep.imports import run_name
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import MAX_NAME, Run
from core.text import clean, sentence_case, shown

ENDED_AS: Mapping[str, MachineState] = {"finished": "finished", "cancelled": "cancelled", "failed": "failed"}
"""What a machine's state is whose run ended so; a run that was interrupted is one whose machine was lost."""


@dataclass(frozen=True)
class Found:
    """A run and the file that held it. ``name`` where the file gives its machine one itself, as a fleet run does."""

    path: PurePath
    run: Run
    name: str = ""


def collect(
    found: Sequence[Found], prices: Mapping[str, MachinePrice] | None = None, unread: Sequence[str] = ()
) -> FleetStudy:
    """The fleet run of these; ``unread`` are sentences on files that could not be read, which cost only themselves.

    Of a machine that several files are of the run with the most rounds counts. A run of another plan than most, or one
    whose workers were held back, is named and has no part. Raises UserError where no run is left.
    """
    warnings = [Warning(code=f"unread_{n}", text=text) for n, text in enumerate(unread, 1)]
    plan = _common_plan([one.run for one in found])
    if plan is None:
        raise UserError(" ".join(["No file holds a run with a plan, so that there is nothing to compare.", *unread]))
    chosen, dropped = _one_a_machine(list(_named(found)))
    warnings += [Warning(code=f"same_machine_{n}", text=text) for n, text in enumerate(dropped, 1)]
    if len(chosen) > MAX_MACHINES:
        raise UserError(f"These are {len(chosen):,} machines; at most {MAX_MACHINES:,} can be compared.")
    machines = tuple(machine_of(name, one.run, plan) for name, one in chosen)
    kept = {machine.run_id for machine in machines}
    runs = tuple(recorded(one.run) for _, one in chosen if one.run.id in kept)
    return FleetStudy(
        label="recorded",
        created_at=min((run.created_at for run in runs), default=datetime.now(UTC).isoformat(timespec="seconds")),
        elapsed_s=max((run.elapsed_s for run in runs), default=0.0),
        plan=FleetPlan(sweep=plan, prices=dict(prices or {})),
        machines=machines,
        runs=runs,
        warnings=tuple(warnings),
    )


def machine_of(name: str, run: Run, plan: SweepPlan) -> FleetMachine:
    """What became of a machine, from its run; one whose run cannot be compared is refused and has none."""
    if (why := refused(run, plan)) is not None:
        return FleetMachine(name=name, state="refused", reason=why, starts=1)
    state = ENDED_AS.get(run.status, "lost")
    reason = "" if state == "finished" else f"Its run was {run.status}; what it has measured counts."
    return FleetMachine(name=name, state=state, reason=reason, run_id=run.id, starts=1, rounds=len(run.rounds))


def refused(run: Run, plan: SweepPlan) -> str | None:
    """Why a run cannot be compared with those of the plan, a sentence; None where it can."""
    if run.plan is None:
        return "Its file holds points without a plan; what was measured cannot be told."
    if not alike(run.plan, plan):
        return f"It measured something else: {run.plan.title}."
    if why := hindrance(run.processes):
        return f"{sentence_case(why)}; such step times are not the machine's."
    return None if run.rounds else "Nothing was measured on it."


def alike(first: SweepPlan, second: SweepPlan) -> bool:
    """Whether steps of both are the same: batches, budget and widths only say how much is measured."""
    return _step(first) == _step(second)


def _step(plan: SweepPlan) -> str:
    return plan.model_dump_json(include={"workload", "targets", "pipeline"})


def recorded(run: Run) -> Run:
    """The run as it is kept on a machine that did not measure it."""
    return run.model_copy(update={"label": "recorded" if run.label == "measured" else run.label})


def _common_plan(runs: Iterable[Run]) -> SweepPlan | None:
    """The first plan of those that most runs share."""
    plans: dict[str, list[SweepPlan]] = defaultdict(list)
    for plan in (run.plan for run in runs if run.plan is not None):
        plans[_step(plan)].append(plan)
    return max(plans.values(), key=len, default=[None])[0]


def _one_a_machine(named: Sequence[tuple[str, Found]]) -> tuple[list[tuple[str, Found]], list[str]]:
    """The run of each machine with the most rounds, the newest of those; and a sentence on each that has no part."""
    groups: dict[object, list[tuple[str, Found]]] = defaultdict(list)
    for each in named:
        groups[_identity(each[1].run.environment) or each[1].run.id].append(each)
    chosen, dropped = [], []
    for group in groups.values():
        best = max(group, key=lambda each: (len(each[1].run.rounds), each[1].run.created_at))
        chosen.append(best)
        for _, other in (each for each in group if each is not best):
            dropped.append(
                f"{shown(str(other.path))} is of the same machine as {shown(str(best[1].path))}, which has "
                f"{counted(len(best[1].run.rounds), 'round')} against {len(other.run.rounds):,} and is used."
            )
    return chosen, dropped


def _identity(environment: Environment | None) -> object:
    """What tells machines apart; None where nothing does."""
    if environment is None or not environment.hostname_hash:
        return None
    return environment.hostname_hash, environment.cpu, environment.memory_bytes, tuple(environment.gpus)


def _named(found: Sequence[Found]) -> Iterator[tuple[str, Found]]:
    """Each with a name of its own: that of its file, else of the folder, else what machine it is."""
    stems = [one.name or run_name(one.path.name) for one in found]
    folders = [run_name(f"{one.path.parent.name}.json") if one.path.parent.name else "" for one in found]
    twice = {stem for stem, count in Counter(stems).items() if count > 1}
    shared = Counter(folder for stem, folder in zip(stems, folders, strict=True) if stem in twice)
    taken: set[str] = set()
    for one, stem, folder in zip(found, stems, folders, strict=True):
        name = stem
        if stem in twice:
            name = folder if folder and shared[folder] == 1 else hardware_name(one.run.environment) or stem
        yield unique_name(name, taken), one


def hardware_name(environment: Environment | None) -> str:
    """A machine's first GPU, else its processor; empty where neither is known."""
    if environment is None:
        return ""
    return environment.gpus[0].name if environment.gpus else environment.cpu


def unique_name(wanted: str, taken: set[str]) -> str:
    """The name, numbered where another machine has it already; it is then taken, too."""
    base = clean(wanted).strip()[: MAX_NAME - 8] or "machine"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base} ({number})"
    taken.add(name)
    return name
