"""Measurement of a diagnosis: try the remedies for one target of a finished run, then re-measure the crossover with
those that help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from core.base.fields import About, fields_of
from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.diagnosis.answer import NO_CROSSOVER, best_arms, compared, is_behind
from core.studies.diagnosis.record import Diagnosis, Rerun
from core.studies.diagnosis.remedies import arms_for, with_remedy
from core.studies.experiment.record import Experiment
from core.studies.experiment.run import ExperimentPlan, measure_arms
from core.studies.progress import Progress
from core.studies.runner import NullRecorder, StudyFailed, StudyTools
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep
from core.workload.spec import MAX_BATCH, MIN_BATCH, MIN_BUDGET_S, Batch, Budget, seconds

EXPERIMENT_SHARE = 0.6  # share of the budget for trying the remedies; the rest is for the crossover
MOST_RERUNS = 3
SHORTEST_RERUN_S = 15.0  # less shows no crossover even in clear cases
AROUND = (1 / 8, 1 / 3, 1.0, 3.0, 8.0)  # batches of a rerun, as factors of the old crossover
THINNED = 5  # batches of a rerun if there was no crossover
MIN_DIAGNOSIS_S = 10.0


def default_target(run: Run) -> int:
    """Return the first GPU if only some targets are GPUs, else the second target, or the only one."""
    gpus = [index for index, target in enumerate(run.plan.targets if run.plan else ()) if target.is_gpu]
    return gpus[0] if 0 < len(gpus) < len(run.target_names) else min(1, len(run.target_names) - 1)


def default_batch(run: Run, answer: Answer, target: int) -> int:
    """Return the largest measured batch at which the target is behind, or the middle one if it is nowhere behind."""
    behind = [batch for batch in run.batches if answer.cell(target, batch) and is_behind(answer, target, batch)]
    measured = [batch for batch in run.batches if answer.cell(target, batch)]
    return behind[-1] if behind else measured[len(measured) // 2]


@dataclass(frozen=True)
class DiagnosisPlan:
    """Target and batch of a finished run to diagnose. Raises UserError if the run has no plan or a number is out of
    range.
    """

    run: Run
    target: int
    batch: Annotated[
        Batch, About("Batch size", empty="the largest at which the target is slower than another, else the middle one")
    ]
    budget_s: Annotated[
        Budget,
        Field(ge=MIN_DIAGNOSIS_S),
        seconds("For all of it. About 60 % go to the remedies, the rest to re-measuring the crossover."),
    ] = 120.0

    def __post_init__(self) -> None:
        if self.run.plan is None:
            raise UserError("Only points were imported for this run; without its plan nothing can be tried.")
        for name, field in fields_of(DiagnosisPlan).items():
            field.checked(getattr(self, name))

    @property
    def title(self) -> str:
        return f"run {self.run.id} ({self.run.names[self.target]} at batch {self.batch:,})"


def run_diagnosis(tools: StudyTools, plan: DiagnosisPlan) -> Diagnosis:
    """Measure a diagnosis within the budget. Raises StudyFailed."""
    run, begin_s = plan.run, tools.clock.now_s()
    tools = _by_the_whole(tools, begin_s, plan)
    tried = try_remedies(tools, run, plan.target, plan.batch, EXPERIMENT_SHARE * plan.budget_s)
    reruns, why = _rerun_helping(tools, run, tried, begin_s + plan.budget_s)
    took_s = tools.clock.now_s() - begin_s
    whole = tried.experiment.model_copy(update={"elapsed_s": took_s, "budget_s": plan.budget_s})
    return tried.model_copy(update={"experiment": whole, "reruns": reruns, "skipped": tried.skipped | why})


def _by_the_whole(tools: StudyTools, begin_s: float, plan: DiagnosisPlan) -> StudyTools:
    """Return tools that report the whole diagnosis so far and time against its budget: each part knows only its own."""

    def report(progress: Progress) -> None:
        elapsed_s, record = tools.clock.now_s() - begin_s, None
        left_s = max(0.0, plan.budget_s - elapsed_s)
        if isinstance(progress.record, Experiment):
            record = Diagnosis(run_id=plan.run.id, target=plan.target, batch=plan.batch, experiment=progress.record)
        tools.report(replace(progress, elapsed_s=elapsed_s, remaining_s=left_s, record=record, answer=None))

    return replace(tools, report=report)


def try_remedies(tools: StudyTools, run: Run, target: int, batch: int, budget_s: float) -> Diagnosis:
    """Measure every remedy beside the step as it is, without the crossover. Raises UserError or StudyFailed."""
    arms, skipped = arms_for(run, target, batch)
    assert run.plan is not None  # arms_for refuses a run without one
    plan = ExperimentPlan(run.plan.workload, arms, budget_s)
    experiment = measure_arms(tools, plan)
    return Diagnosis(run_id=run.id, target=target, batch=batch, experiment=experiment, skipped=skipped)


def rerun_plan(run: Run, diagnosis: Diagnosis, arm: int, budget_s: float) -> SweepPlan | None:
    """Plan a small sweep around the old crossover with the remedy applied; None if both targets would be the same.

    Of three or more targets it has the two that are compared.
    """
    run, target = compared(run, diagnosis.target, diagnosis.batch)
    assert run.plan is not None
    changed = with_remedy(run.plan, target, diagnosis.experiment.arms[arm])
    if changed is None:
        return None
    update = {"batches": _batches(run, diagnosis.batch), "budget_s": budget_s, "trace": False}
    return SweepPlan.model_validate(changed.model_copy(update=update).model_dump())


def _batches(run: Run, batch: int) -> tuple[int, ...]:
    """Return batches around the crossover, or over the plan's range without one, and the diagnosed batch."""
    assert run.plan is not None
    crossovers = analyse(run).verdict.crossovers
    if crossovers:
        around = {round(crossovers[0].batch * factor) for factor in AROUND}
    else:
        planned = run.plan.batches
        around = {planned[i * (len(planned) - 1) // (THINNED - 1)] for i in range(THINNED)}
    return tuple(sorted(min(MAX_BATCH, max(MIN_BATCH, b)) for b in around | {batch}))


def _rerun_helping(
    tools: StudyTools, run: Run, tried: Diagnosis, end_s: float
) -> tuple[tuple[Rerun, ...], dict[str, str]]:
    """Run a small sweep for each of the best remedies; also return why others were not re-measured."""
    helping = best_arms(tried)
    reruns: list[Rerun] = []
    why: dict[str, str] = {}
    affordable = min(MOST_RERUNS, len(helping), int((end_s - tools.clock.now_s()) / SHORTEST_RERUN_S))
    for place, arm in enumerate(helping):
        code = tried.experiment.arms[arm].code
        if len(run.target_names) == 1:
            why[code] = NO_CROSSOVER
            continue
        if tools.cancel.is_set() or place >= affordable:  # the best remedies come first
            why[code] = f"Not re-measured: {'it was cancelled' if tools.cancel.is_set() else 'the budget ended'} first."
            continue
        budget_s = max(MIN_BUDGET_S, (end_s - tools.clock.now_s()) / (affordable - place))
        plan = rerun_plan(run, tried, arm, budget_s)
        if plan is None:
            why[code] = "Not re-measured: with it both targets would be the same."
            continue
        try:
            reruns.append(Rerun(code=code, run=_sweep(tools, tried, plan, code)))
        except StudyFailed as error:
            why[code] = f"Not re-measured: {error}"
    return tuple(reruns), why


def _sweep(tools: StudyTools, tried: Diagnosis, plan: SweepPlan, code: str) -> Run:
    fresh = new_run(plan, plan.title[:200], f"{tried.run_id[:40]}-{code}"[:64], tried.environment)
    tools.report(Progress("measuring", f"Measuring the crossover again with {code}", 0, 1, 0.0, plan.budget_s))
    return run_sweep(replace(tools, recorder=NullRecorder()), fresh)
