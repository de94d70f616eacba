"""The ``batch`` command: a recommendation from a finished sweep, the gradient noise scale and hourly prices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import click

from core.base.evidence import note_lines
from core.base.fields import fields_of
from core.base.numbers import moment, table
from core.base.text import in_lines, json_text, sentence_case
from core.cli.choices import currency_option
from core.cli.files import (
    FILE,
    BadInput,
    check_writable,
    conclude,
    json_flag,
    read_file,
    read_study,
    refusing,
    write_out,
)  # fmt: skip
from core.cli.model_code import launcher_for, model_permission
from core.cli.networks import flag_of
from core.cli.plan_fields import field_option, plan_options
from core.cli.study_command import Asked, measured_part, store_option
from core.cli.terminal import say
from core.cli.verdict import answer_of
from core.rounds.plan import target_of_plan
from core.rounds.run import Run
from core.studies.batch.answer import batch_answer, limit_of
from core.studies.batch.export import batch_data
from core.studies.batch.shapes import BatchAnswer, BatchPoint, MemoryLimit, Price, Quantity, TargetBatches
from core.studies.memory.kind import MEMORY
from core.studies.memory.record import MemoryStudy
from core.studies.noise.export import measured_sentence
from core.studies.noise.kind import GRADIENT_NOISE
from core.studies.noise.record import NoisePlan, NoiseStudy
from core.userdata.source import RANDOM_LABELS, check_labelled
from core.workload.spec import Target

MEASURING = ("data", "target_loss", "learning_rate", "noise_batch", "noise_target")


@click.command("batch")
@click.argument("path", type=FILE)
@click.option("--noise", type=FILE, help="A noise study measured before, in JSON.")
@plan_options(NoisePlan, "budget_s", default=None, help="Measure one now, for so many seconds.")
@click.option(
    "--memory",
    "memory_files",
    multiple=True,
    type=FILE,
    help="What “memory --out” wrote for one of the run's targets; once for each.",
)
@plan_options(NoisePlan, "data", "target_loss", "learning_rate")
@field_option(fields_of(NoisePlan)["batch"], "--noise-batch", default=None)
@click.option("--noise-target", help="Where it trains (default: cpu).")
@click.option("--price", "prices", multiple=True, help="An hour on a target, such as cpu=0.20; once for each.")
@currency_option
@click.option("--priced-on", help="The day of the prices, such as 2026-11-01 (default: today).")
@click.option("--epoch-samples", type=int, help="Samples in an epoch, for its cost (default: those of --data).")
@click.option("--out", type=FILE, help="Write what it says and what was measured, in JSON.")
@store_option
@click.option("--noise-out", type=FILE, help="Write the noise study alone, for --noise.")
@json_flag
@model_permission
@click.pass_context
def batch_command(context: click.Context, path: Path, **_: Any) -> None:
    """Say which batch to train with: throughput, time to a loss and cost by batch on every target.

    PATH is a finished run in JSON. With --budget or any choice of a training the gradient noise scale is measured here
    first, with --noise it is read; without either, throughput and cost are all there is.
    """
    flags = context.params
    for name in ("out", "noise_out"):
        if flags[name] is not None:
            check_writable(flags[name])
    run = read_file(path)
    answer = answer_of(run)
    prices, samples = _prices(flags), _epoch_samples(run, flags)
    memory = _memory(run, flags["memory_files"])

    def answered(noise: NoiseStudy | None) -> BatchAnswer:
        with refusing():
            return batch_answer(run, answer, noise, memory, prices, samples)

    answered(None)  # refuse an unsuitable price before anything is measured
    noise = _noise(run, flags)
    unwritten = None if noise is None else write_out(flags["noise_out"], noise.to_json(indent=1))
    batches = answered(noise)
    data = batch_data(run, batches, noise)
    also = write_out(flags["out"], json_text(data))
    conclude(batch_text(run, batches, noise), data if flags["as_json"] else None, unwritten, also)


def _memory(run: Run, paths: tuple[Path, ...]) -> dict[str, MemoryLimit]:
    """Return the memory limit of each target for which there is a file. Raises BadInput for an unrelated file."""
    studies: dict[str, MemoryStudy] = {}
    for path in paths:
        study = read_study(MEMORY, path)
        index = target_of_plan(run.plan, study.plan.workload, study.plan.target) if run.plan is not None else None
        if index is None:
            raise BadInput(f"{path} is of {study.plan.title}, which is no target of this run with its workload.")
        studies[run.target_names[index]] = study
    return {name: limit_of(study, ()) for name, study in studies.items()}


def _prices(flags: dict[str, Any]) -> tuple[Price, ...]:
    dated = flags["priced_on"] or date.today().isoformat()
    with refusing():
        return tuple(Price.parse(text, flags["money"].currency, dated) for text in flags["prices"])


def _epoch_samples(run: Run, flags: dict[str, Any]) -> int | None:
    """Return the user's number of samples, else that of their data if it is known without reading them."""
    if flags["epoch_samples"] is not None or flags["data"] is None or run.plan is None:
        return flags["epoch_samples"]
    with refusing():
        return check_labelled(flags["data"], run.plan.workload).samples


def _noise(run: Run, flags: dict[str, Any]) -> NoiseStudy | None:
    """Return the noise study from a file or measured now; None if neither is requested."""
    chosen = [flag_of(name) for name in MEASURING if flags[name] is not None]
    if flags["noise"] is not None:
        if chosen or flags["budget_s"] is not None:
            raise BadInput(
                "--noise reads a study that was measured before; leave out --budget and what it trains with."
            )
        return read_study(GRADIENT_NOISE, flags["noise"])
    if flags["budget_s"] is None and not chosen:
        return None
    plan = _plan(run, flags)
    launcher = launcher_for(plan.workload.network, flags["model"])
    say(f"Measuring the gradient noise scale: {plan.title}, learning rate {plan.rate:g}, {plan.budget_s:.0f} s at most")
    return measured_part(GRADIENT_NOISE, Asked(plan, launcher=launcher), flags["store"])


def _plan(run: Run, flags: dict[str, Any]) -> NoisePlan:
    """Return the plan from the flags. Raises BadInput."""
    if run.plan is None:
        raise BadInput("Only points were imported for this run; without its plan there is no workload to train.")
    values = {"data": flags["data"], "target_loss": flags["target_loss"], "learning_rate": flags["learning_rate"]}
    named = {"budget_s": flags["budget_s"], "batch": flags["noise_batch"]}
    with refusing():
        if flags["noise_target"] is not None:
            named["target"] = Target.parse(flags["noise_target"])
        if flags["data"] is not None and run.plan.workload.training:
            source = check_labelled(flags["data"], run.plan.workload)
            say(f"{source.name}: {source.words}")
            values["data"] = source.path  # absolute: a worker may have another working folder
        chosen = {name: value for name, value in named.items() if value is not None}
        return NoisePlan.model_validate({"workload": run.plan.workload, "run_id": run.id} | values | chosen)


def batch_text(run: Run, answer: BatchAnswer, noise: NoiseStudy | None) -> str:
    """Return the verdict, then every measured batch on each target, and the origin of the measurements."""
    lines = [*answer.sentences, ""]
    for target in answer.targets:
        lines += [f"{sentence_case(target.title)}:", *_rows(target), ""]
    lines.append(f"Step times are {run.label}: {run.name}, {run.status}, {moment(run.created_at)}")
    if noise is None and (run.plan is None or run.plan.workload.training):
        lines.append(RANDOM_LABELS)
    if noise is not None:
        lines.append(f"{measured_sentence(noise)} Times to the loss are predicted from both.")
    if answer.costs:
        priced = [f"{t.title} at {t.price.amount}" for t in answer.targets if t.price is not None]
        lines.append(f"Prices are yours: {'; '.join(priced)}.")
    lines += note_lines(answer.warnings)
    return in_lines(lines)


def _rows(target: TargetBatches) -> list[str]:
    """Return a table of the measured batches, without columns that are entirely unknown."""
    points = [point for point in target.points if point.label != "interpolated"]
    columns: dict[str, Callable[[BatchPoint], Quantity | None]] = {
        "step ms": lambda point: point.step_ms,
        "samples/s": lambda point: point.samples_per_s,
        "µs per sample": lambda point: point.us_per_sample,
        "steps": lambda point: point.steps,
        "s to the loss": lambda point: point.time_s,
        "over best": lambda point: point.relative_time,
        "per million samples": lambda point: point.cost_per_million,
        "per epoch": lambda point: point.cost_per_epoch,
        "to the loss": lambda point: point.cost_to_loss,
    }
    known = {name: get for name, get in columns.items() if any(get(point) is not None for point in points)}
    rows = [
        (f"{point.batch:,}", *(None if (value := get(point)) is None else value.value for get in known.values()))
        for point in points
    ]
    return table(("batch", *known), rows)
