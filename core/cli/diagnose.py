"""The ``diagnose`` command: remedies for one target of a finished sweep, tried and measured here."""

from __future__ import annotations

from typing import Any

import click

from core.base.text import sentence_case
from core.cli.devices import is_this_machine
from core.cli.files import FILE, BadInput, read_file, refusing
from core.cli.model_code import launcher_for, model_permission
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.cli.verdict import answer_of
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.run import DiagnosisPlan, default_batch, default_target
from core.studies.kind import Context
from core.workload.names import all_of


@study_command(DIAGNOSIS, "diagnose")
@click.argument("path", type=FILE)
@plan_options(DiagnosisPlan, "budget_s")
@click.option("--target", help="Which of the run's targets, as commands write it (default: the GPU, else the second).")
@plan_options(DiagnosisPlan, "batch")
@model_permission
def diagnose_command(flags: dict[str, Any], _: History) -> Asked:
    """Try every remedy for one target of the run in PATH, and say what each gains here and does to the crossover.

    PATH is a finished run in JSON, measured on this machine.
    """
    run = read_file(flags["path"])
    answer = answer_of(run)
    with refusing():
        plan = DiagnosisPlan(run, *_choices(run, answer, flags["target"], flags["batch"]), flags["budget_s"])
    assert run.plan is not None  # DiagnosisPlan refuses a run without a plan
    launcher = launcher_for(run.plan.workload.network, flags["model"])
    return Asked(plan, Context(run=run), _other_machine(run), launcher)


def _choices(run: Run, answer: Answer, target: str | None, batch: int | None) -> tuple[int, int]:
    """Return the index of the target, and the batch. Raises BadInput."""
    if target is not None and target not in run.target_names:
        raise BadInput(f"“{target}” is no target of this run; it has {all_of(run.target_names)}.")
    index = default_target(run) if target is None else run.target_names.index(target)
    if not any(cell.target == index for cell in answer.cells):
        raise BadInput(
            f"{sentence_case(run.names[index])} has no measured step in this run, so there is nothing to explain."
        )
    return index, default_batch(run, answer, index) if batch is None else batch


def _other_machine(run: Run) -> tuple[str, ...]:
    if is_this_machine(run.environment):
        return ()
    return ("Note: this run was measured on another machine; the remedies are measured on this one.",)
