"""``diagnose``: what would help one target of a finished sweep, tried and measured here."""

from __future__ import annotations

import json
from pathlib import Path

import click

from core.analysis.answer import Answer
from core.analysis.findings import DiagnosisAnswer, diagnose
from core.cli.answers import answer_of
from core.cli.files import BadInput, check_writable, read_file, write_file
from core.cli.model_code import launcher_for, model_permission
from core.cli.studying import run_study
from core.cli.sweep import say
from core.cli.text import table
from core.environment import capture_environment
from core.experiment import Diagnosis
from core.export import diagnosis_data
from core.measure.protocol import Launcher
from core.results import Run
from core.spec import MAX_BATCH, MAX_BUDGET_S, MIN_BATCH


@click.command("diagnose")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--budget", "budget_s", type=float, default=120.0, show_default=True, help="Seconds for all of it.")
@click.option("--target", help="Which of the run's two targets, by its name (default: the GPU, else the second).")
@click.option("--batch", type=int, help="At which batch (default: the largest at which the target is behind).")
@model_permission
@click.option("--out", type=click.Path(path_type=Path), help="Write the diagnosis to this file, in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def diagnose_command(
    path: Path,
    budget_s: float,
    target: str | None,
    batch: int | None,
    model: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Try every remedy for one target of the run in PATH, and say what each gains here and does to the crossover.

    PATH is a finished run in JSON, measured on this machine.
    """
    if out is not None:
        check_writable(out)
    run = read_file(path)
    answer = answer_of(run)
    index, at = _choices(run, answer, target, batch, budget_s)
    assert run.plan is not None  # _choices refuses a run without one
    launcher = launcher_for(run.plan.workload.network, model)
    _same_machine(run)
    found = _measure(run, index, at, budget_s, launcher)
    told = diagnose(run, found)
    if out is not None:
        write_file(out, json.dumps(diagnosis_data(found, told), ensure_ascii=False, allow_nan=False, indent=1) + "\n")
        say(f"Wrote {out}.")
    if as_json:
        click.echo(json.dumps(diagnosis_data(found, told), ensure_ascii=False, allow_nan=False, indent=2))
    else:
        click.echo(diagnosis_text(run, found, told))


def _choices(run: Run, answer: Answer, target: str | None, batch: int | None, budget_s: float) -> tuple[int, int]:
    """Index of the target, and the batch. Raises BadInput with a sentence."""
    from core.measure.diagnose import MIN_DIAGNOSIS_S, default_batch, default_target

    if run.plan is None:
        raise BadInput("Only points were imported for this run; without its plan nothing can be tried.")
    if not MIN_DIAGNOSIS_S <= budget_s <= MAX_BUDGET_S:
        raise BadInput(f"The budget must lie between {MIN_DIAGNOSIS_S:g} and {MAX_BUDGET_S:,.0f} seconds.")
    if target is not None and target not in run.target_names:
        raise BadInput(f"“{target}” is no target of this run; it has {run.target_names[0]} and {run.target_names[1]}.")
    if batch is not None and not MIN_BATCH <= batch <= MAX_BATCH:
        raise BadInput(f"Batch {batch} is not possible; accepted are {MIN_BATCH} to {MAX_BATCH:,}.")
    index = default_target(run) if target is None else run.target_names.index(target)
    if not any(cell.target == index for cell in answer.cells):
        raise BadInput(f"{run.target_names[index]} has no measured step in this run, so there is nothing to explain.")
    return index, default_batch(run, answer, index) if batch is None else batch


def _same_machine(run: Run) -> None:
    here = capture_environment()
    there = run.environment
    if there is None or there.hostname_hash != here.hostname_hash or there.cpu != here.cpu:
        say("Warning: this run was measured on another machine; the remedies are measured on this one.")


def _measure(run: Run, target: int, batch: int, budget_s: float, launcher: Launcher) -> Diagnosis:
    from core.measure.diagnose import run_diagnosis

    return run_study(
        f"Diagnosing {run.name}", lambda tools: run_diagnosis(tools, run, target, batch, budget_s), launcher
    )


def diagnosis_text(run: Run, found: Diagnosis, told: DiagnosisAnswer) -> str:
    """Verdict, the ranked remedies with evidence, what was not tried, and the readings."""
    rows = [
        (f.title, f.judgement, _times(f.gain), _times(f.low), _times(f.high))
        for f in told.findings
        if f.gain is not None
    ]
    lines = [told.sentence, "", *table(("remedy", "says", "gain", "95 % from", "to"), rows), ""]
    for finding in told.findings:
        if finding.gain is not None:
            more = f" Others: {finding.others}." if finding.others else ""
            lines.append(f"{finding.title}: {finding.evidence}{more} Crossover: {finding.crossover}")
    missing = [f"{f.title}: {f.evidence}" for f in told.findings if f.gain is None and f.evidence]
    lines += ["", "Not measured:", *(f"  {text}" for text in missing)] if missing else []
    lines += ["", *(f"{reading.title}: {reading.text}" for reading in told.readings)]
    lines += [f"Warning ({warning.code}): {warning.text}" for warning in told.warnings]
    starts = len({block.process for item in found.experiment.rounds for block in item.blocks})
    lines.append(
        f"Measured for {run.target_names[found.target]} at batch {found.batch:,}: "
        f"{len(found.experiment.rounds)} rounds of {len(found.experiment.arms)} variants in {starts} starts, "
        f"{found.experiment.elapsed_s:.0f} s, {found.experiment.status}."
    )
    return "\n".join(lines)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}×"
