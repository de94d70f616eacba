"""``pipeline``: how much of a step the input takes, measured by feeding the same step in several ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from core.analysis.cudnn import cudnn_note
from core.analysis.pipeline import Fed, PipelineAnswer, pipeline_answer
from core.cli.choices import pipeline_options
from core.cli.devices import target_of
from core.cli.files import BadInput, Failure, check_writable, write_file
from core.cli.model_code import launcher_for
from core.cli.networks import network_of, network_options
from core.cli.studying import run_study
from core.cli.sweep import say
from core.cli.text import table
from core.datasource import check_data, check_fits
from core.experiment import Experiment
from core.measure.protocol import Launcher
from core.pipeline_export import pipeline_data
from core.pipeline_study import BASE, DEFAULT_BASE, DEFAULT_BATCH, DEFAULT_BUDGET_S, PipelineStudy
from core.spec import Mode, Optimizer, Workload, explain


def _study_options(function: Any) -> Any:
    options = [
        network_options(),
        click.option("--mode", type=click.Choice(get_args(Mode)), default="train", show_default=True),
        click.option("--optimizer", type=click.Choice(get_args(Optimizer)), default="adam", show_default=True),
        click.option("--target", help="Such as cpu,threads=1 or gpu:0 (default: the GPU, else the CPU)."),
        click.option("--batch", type=int, default=DEFAULT_BATCH, show_default=True),
        click.option("--prefetch", default="auto", show_default=True, help="off, a number of batches, or auto."),
        click.option("--parallel-calls", default="auto", show_default=True, help="Parallel map calls, or auto."),
        click.option("--cache", is_flag=True, help="Cache the samples."),
        click.option("--shuffle", is_flag=True, help="Shuffle the samples."),
        click.option("--preprocess-us", type=float, help="Work a sample in the map, in µs (default: 50; 0 with data)."),
        click.option("--preprocess-python", is_flag=True, help="That work is Python code."),
        click.option("--data", help="Your own data: .npy, .npz, TFRecord files, or a folder of PNG or JPEG images."),
        click.option("--budget", "budget_s", type=float, default=DEFAULT_BUDGET_S, show_default=True, help="Seconds."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("pipeline")
@_study_options
@click.option("--out", type=click.Path(path_type=Path), help="Write what it says and what was measured, in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def pipeline_command(context: click.Context, out: Path | None, as_json: bool, **_: Any) -> None:
    """Feed one step in several ways on this machine, and say what share of it the input takes.

    Ways: data resident on the device, a host array, and tf.data as chosen with prefetch, parallel calls and
    preprocessing cost changed one at a time.
    """
    if out is not None:
        check_writable(out)
    study = _study(context.params)
    launcher = launcher_for(study.workload.network, context.params["model"])
    say(f"{study.title}: {len(study.arms)} ways of feeding, as chosen: {study.base.title}")
    if (note := cudnn_note(study.workload, (study.target,))) is not None:
        say(note)
    experiment = _measure(study, launcher)
    try:
        answer = pipeline_answer(experiment)
    except ValueError as error:
        if experiment.status != "cancelled":
            raise Failure(str(error)) from None
        say("Stopped before the first round; nothing was measured.")
        return
    text = json.dumps(pipeline_data(experiment, answer), ensure_ascii=False, allow_nan=False, indent=2)
    if out is not None:
        write_file(out, text + "\n")
        say(f"Wrote {out}.")
    click.echo(text if as_json else pipeline_text(experiment, answer))


def _study(given: dict[str, Any]) -> PipelineStudy:
    """The study of the flags. Raises BadInput with a sentence."""
    data = given["data"]
    try:
        workload = Workload.model_validate(
            {"network": network_of(given), "mode": given["mode"], "optimizer": given["optimizer"]}
        )
        if data is not None:
            source = check_data(data)
            check_fits(source, workload)
            say(f"{source.name}: {source.words}")
            data = source.path  # absolute: a worker may have another working folder
        base = {"kind": "tfdata", "preprocess_us": 0.0 if data is not None else DEFAULT_BASE.preprocess_us}
        values = {
            "workload": workload,
            "target": target_of(given["target"]),
            "batch": given["batch"],
            "base": base | pipeline_options(given) | {"data": data},
            "budget_s": given["budget_s"],
        }
        return PipelineStudy.model_validate(values)
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def _measure(study: PipelineStudy, launcher: Launcher) -> Experiment:
    from core.measure.experiment import ExperimentPlan
    from core.measure.studies import measure_arms

    plan = ExperimentPlan(study.workload, study.arms, study.budget_s)
    return run_study(f"Input pipeline of {study.title}", lambda tools: measure_arms(tools, plan), launcher)


def pipeline_text(experiment: Experiment, answer: PipelineAnswer) -> str:
    """Verdict first, then every way of feeding, what has no number, and how it was measured."""
    columns = ("way of feeding", "step ms", "95 % from", "to", "input-bound", "rounds")
    chosen = experiment.arms[experiment.index_of(BASE) or 0]
    sentences = [part.sentence for part in (answer.prefetch, answer.starvation) if part is not None]
    starts = len({block.process for item in experiment.rounds for block in item.blocks})
    lines = [answer.sentence, *sentences, "", *table(columns, [_row(fed) for fed in answer.fed]), ""]
    lines += [f"{one.title}: {one.outcome.replace('_', ' ')}. {one.reason}".rstrip() for one in answer.missing]
    lines.append(f"As chosen: {chosen.pipeline.title}.")
    if chosen.pipeline.data is not None:
        lines.append("Your own data feed the tf.data rows; resident and host hold random arrays of the same shape.")
    lines.append(
        f"All times are {experiment.label}: {experiment.workload.title} on {chosen.target}, batch {chosen.batch:,}; "
        f"{len(experiment.rounds):,} rounds in {starts} starts, {experiment.elapsed_s:.0f} s, {experiment.status}, "
        f"{experiment.created_at}"
    )
    lines += [f"Warning ({warning.code}): {warning.text}" for warning in experiment.warnings]
    return "\n".join(lines)


def _row(fed: Fed) -> tuple[str | float | None, ...]:
    share = "" if fed.share is None else fed.share.words
    return fed.title, fed.step_ms, fed.low_ms, fed.high_ms, share, fed.rounds
