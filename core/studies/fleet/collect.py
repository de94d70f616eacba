"""Fleet run assembled from runs measured machine by machine and read from files: the same answer without a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from core.base.evidence import Environment, Warning
from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import clean, sentence_case, shown
from core.rounds.answer.reliability import hindrance
from core.rounds.plan import SweepPlan
from core.rounds.run import MAX_NAME, Run
from core.rounds.show.imports import run_name
from core.studies.fleet.record import MAX_MACHINES, FleetMachine, FleetPlan, FleetStudy, MachinePrice, MachineState

ENDED_AS: Mapping[str, MachineState] = {"finished": "finished", "cancelled": "cancelled", "failed": "failed"}
"""State of a machine by the status of its run; for an interrupted run the machine was lost."""


@dataclass(frozen=True)
class Found:
    """Run and the file that held it. ``name`` is set if the file itself names the machine, as a fleet run does."""

    path: PurePath
    run: Run
    name: str = ""


def collect(
    files: Sequence[Found], prices: Mapping[str, MachinePrice] | None = None, unread: Sequence[str] = ()
) -> FleetStudy:
    """Assemble the fleet run; ``unread`` are sentences on files that could not be read, which cost only themselves.

    Of several files from one machine the run with the most rounds counts. A run with another plan than most, or one
    whose workers were held back, is named and left out. Raises UserError if no run is left.
    """
    warnings = [Warning(code=f"unread_{n}", text=text) for n, text in enumerate(unread, 1)]
    plan = _common_plan([file.run for file in files])
    if plan is None:
        raise UserError(" ".join(["No file holds a run with a plan, so that there is nothing to compare.", *unread]))
    chosen, dropped = _one_per_machine(list(_named(files)))
    warnings += [Warning(code=f"same_machine_{n}", text=text) for n, text in enumerate(dropped, 1)]
    if len(chosen) > MAX_MACHINES:
        raise UserError(f"These are {len(chosen):,} machines; at most {MAX_MACHINES:,} can be compared.")
    machines = tuple(machine_of(name, file.run, plan) for name, file in chosen)
    kept = {machine.run_id for machine in machines}
    runs = tuple(recorded(file.run) for _, file in chosen if file.run.id in kept)
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
    """Return the state of a machine from its run; one whose run cannot be compared is refused and has none."""
    if (why := refused(run, plan)) is not None:
        return FleetMachine(name=name, state="refused", reason=why, starts=1)
    state = ENDED_AS.get(run.status, "lost")
    reason = "" if state == "finished" else f"Its run was {run.status}; what it has measured counts."
    return FleetMachine(name=name, state=state, reason=reason, run_id=run.id, starts=1, rounds=len(run.rounds))


def refused(run: Run, plan: SweepPlan) -> str | None:
    """Explain in a sentence why a run cannot be compared with those of the plan; None if it can."""
    if run.plan is None:
        return "Its file holds points without a plan; what was measured cannot be told."
    if not alike(run.plan, plan):
        return f"It measured something else: {run.plan.title}."
    if why := hindrance(run.processes):
        return f"{sentence_case(why)}; such step times are not the machine's."
    return None if run.rounds else "Nothing was measured on it."


def alike(first: SweepPlan, second: SweepPlan) -> bool:
    """Tell whether the steps of both plans are the same: batches, budget and widths only set how much is measured."""
    return _step(first) == _step(second)


def _step(plan: SweepPlan) -> str:
    return plan.model_dump_json(include={"workload", "targets", "pipeline"})


def recorded(run: Run) -> Run:
    """Return the run as it is kept on a machine that did not measure it."""
    return run.model_copy(update={"label": "recorded" if run.label == "measured" else run.label})


def _common_plan(runs: Iterable[Run]) -> SweepPlan | None:
    """Return the first of the plans that most runs share."""
    plans: dict[str, list[SweepPlan]] = defaultdict(list)
    for plan in (run.plan for run in runs if run.plan is not None):
        plans[_step(plan)].append(plan)
    return max(plans.values(), key=len, default=[None])[0]


def _one_per_machine(named: Sequence[tuple[str, Found]]) -> tuple[list[tuple[str, Found]], list[str]]:
    """Return the run of each machine with the most rounds (the newest of those), and a sentence on each one dropped."""
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
    """Return a key that identifies the machine; None if nothing does."""
    if environment is None or not environment.hostname_hash:
        return None
    return environment.hostname_hash, environment.cpu, environment.memory_bytes, tuple(environment.gpus)


def _named(files: Sequence[Found]) -> Iterator[tuple[str, Found]]:
    """Yield each run with a unique name: that of its file, else of the folder, else of the hardware."""
    stems = [file.name or run_name(file.path.name) for file in files]
    folders = [run_name(f"{file.path.parent.name}.json") if file.path.parent.name else "" for file in files]
    twice = {stem for stem, count in Counter(stems).items() if count > 1}
    shared = Counter(folder for stem, folder in zip(stems, folders, strict=True) if stem in twice)
    taken: set[str] = set()
    for file, stem, folder in zip(files, stems, folders, strict=True):
        name = stem
        if stem in twice:
            name = folder if folder and shared[folder] == 1 else hardware_name(file.run.environment) or stem
        yield unique_name(name, taken), file


def hardware_name(environment: Environment | None) -> str:
    """Return a machine's first GPU, else its processor; empty if neither is known."""
    if environment is None:
        return ""
    return environment.gpus[0].name if environment.gpus else environment.cpu


def unique_name(preferred: str, taken: set[str]) -> str:
    """Return the name, numbered if another machine has it already, and mark it as taken."""
    base = clean(preferred).strip()[: MAX_NAME - 8] or "machine"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base} ({number})"
    taken.add(name)
    return name
