"""``batch``: which batch to train with, from a finished sweep, the gradient noise scale and the prices of an hour."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from core.analysis.answer import Answer
from core.analysis.batch import batch_answer, limit_of
from core.analysis.batch_answer import BatchAnswer, BatchPoint, MemoryLimit, Quantity, TargetBatches
from core.batch_export import batch_data
from core.cli.answers import answer_of
from core.cli.files import BadInput, check_writable, read_bytes, read_file, write_file
from core.cli.model_code import launcher_for, model_permission
from core.cli.studying import run_study
from core.cli.sweep import say
from core.cli.text import table
from core.measure.protocol import Launcher
from core.memory_study import MemoryStudy
from core.noise_study import DEFAULT_BATCH, DEFAULT_BUDGET_S, RANDOM_LABELS, NoisePlan, NoiseStudy, check_labelled
from core.prices import Price
from core.results import Run
from core.spec import Target, explain

MAX_STUDY_BYTES = 64 * 2**20
MEASURING = ("data", "target_loss", "learning_rate", "noise_batch", "noise_target")
F = TypeVar("F", bound=Callable[..., Any])


def _options(function: F) -> F:
    options = [
        click.option("--noise", type=click.Path(path_type=Path), help="A noise study measured before, in JSON."),
        click.option("--budget", "budget_s", type=float, help=f"Measure one now; seconds ({DEFAULT_BUDGET_S:.0f})."),
        click.option(
            "--memory",
            "memory_files",
            multiple=True,
            type=click.Path(path_type=Path),
            help="What “memory --out” wrote for one of the run's targets; once for each.",
        ),
        click.option("--data", help="Your own labelled data for it (default: the task of a teacher network)."),
        click.option("--target-loss", type=float, help="Held-out loss to train to (default: half of the untrained)."),
        click.option("--learning-rate", type=float, help="Of that training (default: Keras's for the optimizer)."),
        click.option("--noise-batch", type=int, help=f"Reference batch that trains (default: {DEFAULT_BATCH})."),
        click.option("--noise-target", help="Where it trains (default: cpu)."),
        click.option("--price", "prices", multiple=True, help="An hour on a target, such as cpu=0.20; once for each."),
        click.option("--currency", default="EUR", show_default=True, help="Of all prices, three letters."),
        click.option("--priced-on", help="The day of the prices, such as 2026-11-01 (default: today)."),
        click.option("--epoch-samples", type=int, help="Samples in an epoch, for its cost (default: those of --data)."),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Write what it says and what was measured, in JSON."
        ),
        click.option("--noise-out", type=click.Path(path_type=Path), help="Write the noise study alone, for --noise."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("batch")
@click.argument("path", type=click.Path(path_type=Path))
@_options
@model_permission
@click.pass_context
def batch_command(context: click.Context, path: Path, **_: Any) -> None:
    """Say which batch to train with: throughput, time to a loss and cost by batch on both targets.

    PATH is a finished run in JSON. With --budget or any choice of a training the gradient noise scale is measured here
    first, with --noise it is read; without either, throughput and cost are all there is.
    """
    given = context.params
    for name in ("out", "noise_out"):
        if given[name] is not None:
            check_writable(given[name])
    run = read_file(path)
    answer = answer_of(run)
    prices, samples = _prices(given), _epoch_samples(run, given)
    memory = _memory(run, given["memory_files"])
    _told(
        run, answer, None, memory, prices, samples
    )  # a price that does not fit is refused before anything is measured
    noise = _noise(run, given)
    if noise is not None and given["noise_out"] is not None:
        write_file(given["noise_out"], noise.to_json(indent=1) + "\n")
        say(f"Wrote {given['noise_out']}.")
    told = _told(run, answer, noise, memory, prices, samples)
    text = json.dumps(batch_data(run, told, noise), ensure_ascii=False, allow_nan=False, indent=2)
    if given["out"] is not None:
        write_file(given["out"], text + "\n")
        say(f"Wrote {given['out']}.")
    click.echo(text if given["as_json"] else batch_text(run, told, noise))


def _told(
    run: Run,
    answer: Answer,
    noise: NoiseStudy | None,
    memory: dict[str, MemoryLimit],
    prices: tuple[Price, ...],
    epoch_samples: int | None,
) -> BatchAnswer:
    try:
        return batch_answer(run, answer, noise, memory, prices, epoch_samples)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _memory(run: Run, paths: tuple[Path, ...]) -> dict[str, MemoryLimit]:
    """The memory limit of each target that a file tells of. Raises BadInput where a file is of something else."""
    studies: dict[str, MemoryStudy] = {}
    for path in paths:
        study = _read_memory(path)
        name = str(study.plan.target)
        if run.plan is None or study.plan.workload != run.plan.workload or name not in run.target_names:
            raise BadInput(f"{path} is of {study.plan.title}, which is no target of this run with its workload.")
        studies[name] = study
    return {name: limit_of(study, ()) for name, study in studies.items()}


def _read_memory(path: Path) -> MemoryStudy:
    try:
        data = json.loads(_bytes_of(path, "memory study"))
        return MemoryStudy.from_json(json.dumps(data.get("record", data) if isinstance(data, dict) else data))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None


def _prices(given: dict[str, Any]) -> tuple[Price, ...]:
    dated = given["priced_on"] or date.today().isoformat()
    try:
        return tuple(Price.parse(text, given["currency"], dated) for text in given["prices"])
    except ValueError as error:
        raise BadInput(str(error)) from None


def _epoch_samples(run: Run, given: dict[str, Any]) -> int | None:
    """The person's number, else the samples of their data where these tell it without being read."""
    if given["epoch_samples"] is not None or given["data"] is None or run.plan is None:
        return given["epoch_samples"]
    try:
        return check_labelled(given["data"], run.plan.workload).samples
    except ValueError as error:
        raise BadInput(str(error)) from None


def _noise(run: Run, given: dict[str, Any]) -> NoiseStudy | None:
    """The noise study of a file, or one that is measured now; None where neither is asked for."""
    chosen = [f"--{name.replace('_', '-')}" for name in MEASURING if given[name] is not None]
    if given["noise"] is not None:
        if chosen or given["budget_s"] is not None:
            raise BadInput(
                "--noise reads a study that was measured before; leave out --budget and what it trains with."
            )
        return _read(given["noise"])
    if given["budget_s"] is None and not chosen:
        return None
    plan = _plan(run, given)
    launcher = launcher_for(plan.workload.network, given["model"])
    say(f"Measuring the gradient noise scale: {plan.title}, learning rate {plan.rate:g}, {plan.budget_s:.0f} s at most")
    return _measure(plan, launcher)


def _read(path: Path) -> NoiseStudy:
    try:
        return NoiseStudy.from_json(_bytes_of(path, "noise study"))
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def _bytes_of(path: Path, kind: str) -> bytes:
    data = read_bytes(path, MAX_STUDY_BYTES)
    if len(data) > MAX_STUDY_BYTES:
        raise BadInput(f"{path} is too large for a {kind}; accepted is JSON of up to 64 MiB.")
    return data


def _plan(run: Run, given: dict[str, Any]) -> NoisePlan:
    """The plan of the flags. Raises BadInput with a sentence."""
    if run.plan is None:
        raise BadInput("Only points were imported for this run; without its plan there is no workload to train.")
    values = {"data": given["data"], "target_loss": given["target_loss"], "learning_rate": given["learning_rate"]}
    named = {"budget_s": given["budget_s"], "batch": given["noise_batch"]}
    try:
        if given["noise_target"] is not None:
            named["target"] = Target.parse(given["noise_target"])
        if given["data"] is not None and run.plan.workload.training:
            source = check_labelled(given["data"], run.plan.workload)
            say(f"{source.name}: {source.words}")
            values["data"] = source.path  # absolute: a worker may have another working folder
        chosen = {name: value for name, value in named.items() if value is not None}
        return NoisePlan.model_validate({"workload": run.plan.workload, "run_id": run.id} | values | chosen)
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def _measure(plan: NoisePlan, launcher: Launcher) -> NoiseStudy:
    from core.measure.noise_study import run_noise_study

    return run_study(f"Gradient noise of {plan.title}", lambda tools: run_noise_study(tools, plan), launcher)


def batch_text(run: Run, told: BatchAnswer, noise: NoiseStudy | None) -> str:
    """Verdict first, then every measured batch on both targets, and what was measured where."""
    lines = [*told.sentences, ""]
    for target in told.targets:
        lines += [f"{target.name}:", *_rows(target), ""]
    lines.append(f"Step times are {run.label}: {run.name}, {run.status}, {run.created_at}")
    if noise is None and (run.plan is None or run.plan.workload.training):
        lines.append(RANDOM_LABELS)
    if noise is not None:
        lines.append(
            f"Gradients and steps are {noise.label}: {noise.plan.title}, learning rate {noise.plan.rate:g}, "
            f"{noise.steps:,} steps, {noise.elapsed_s:.0f} s, {noise.status}, {noise.created_at}. Times to the "
            "loss are predicted from both."
        )
    if told.cost is not None:
        lines.append(f"Prices are yours: {'; '.join(price.words for price in told.cost.prices)}.")
    lines += [f"Warning ({warning.code}): {warning.text}" for warning in told.warnings]
    return "\n".join(lines)


def _rows(target: TargetBatches) -> list[str]:
    """A table of the measured batches; columns that nothing is known of are left out."""
    points = [point for point in target.points if point.label != "interpolated"]
    columns: dict[str, Callable[[BatchPoint], Quantity | None]] = {
        "step ms": lambda point: point.step_ms,
        "samples/s": lambda point: point.samples_per_s,
        "µs a sample": lambda point: point.us_per_sample,
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
