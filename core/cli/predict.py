"""``predict``: step times on a GPU that need not be here, modelled, with their interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from core.analysis.answer import Answer
from core.cli.answers import answer_of
from core.cli.files import BadInput, check_writable, read_bytes, read_file, write_file
from core.cli.networks import network_of, network_options
from core.cli.studying import run_study
from core.cli.sweep import say
from core.cli.text import table
from core.environment import capture_environment
from core.hardware.catalogue import GpuSpec, catalogue, find_gpu
from core.hardware.compare import GPU, batches_between, cpu_index
from core.hardware.crossing import ModelledCrossover, cross
from core.hardware.host import HostCosts, assumed_costs, host_of_study
from core.hardware.own_cards import FILE_NAME, load_own
from core.hardware.recorded import CardCurve, Recording, card_curve, recordings_of
from core.hardware_export import crossover_data, curve_data
from core.host_study import HostStudy
from core.results import Run
from core.spec import Execution, Mode, Optimizer, Precision, Target, Workload, explain, parse_batches

MAX_HOST_BYTES = 8 * 2**20
DEFAULT_BATCHES = "1:4096"


def _options(function: Any) -> Any:
    options = [
        click.option("--gpu", required=True, help="A card of “python -m core gpus”, such as A100-80GB-SXM."),
        network_options(),
        click.option("--mode", type=click.Choice(get_args(Mode)), help="Default: train."),
        click.option("--optimizer", type=click.Choice(get_args(Optimizer)), help="Default: adam."),
        click.option("--batches", default=DEFAULT_BATCHES, show_default=True, help="1:4096, 1:4096:2 or 1,8,64."),
        click.option("--precision", type=click.Choice(get_args(Precision)), default="float32", show_default=True),
        click.option("--execution", type=click.Choice(get_args(Execution)), default="graph", show_default=True),
        click.option("--fed", is_flag=True, help="Each batch comes over the link (default: data on the card)."),
        click.option("--host", type=click.Path(path_type=Path), help="A host study measured before, in JSON."),
        click.option("--measure-host", is_flag=True, help="Measure the host's overhead on this machine, some 15 s."),
        click.option("--host-out", type=click.Path(path_type=Path), help="Write the host study, for --host."),
        click.option("--against", type=click.Path(path_type=Path), help="A run whose CPU it is compared with, JSON."),
        click.option(
            "--recorded", multiple=True, type=click.Path(path_type=Path), help="A run on such a card, which corrects."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("predict")
@_options
@click.pass_context
def predict_command(context: click.Context, **_: Any) -> None:
    """Model the step times of a network on a GPU that need not be here, with 95 % intervals.

    With --against the network is that of the run, and the batch from which the card would be ahead of the run's CPU is
    printed too. Nothing runs on a GPU; with --measure-host the overhead of this machine's CPU is measured first.
    """
    given = context.params
    spec, cards = _card(given["gpu"])
    run = read_file(given["against"]) if given["against"] is not None else None
    workload, target, fed = _workload(given, run), _target(given), _is_fed(given, run)
    batches = _batches(given["batches"])
    recordings = recordings_of([read_file(path) for path in given["recorded"]], spec, cards)
    if given["recorded"] and not recordings:
        raise BadInput(f"No run given by --recorded ran on {spec.name}.")
    against = None if run is None else _cpu_of(run)
    costs = _costs(given, workload)
    curve = card_curve(spec, workload, target, batches, costs, fed, recordings)
    crossover = None
    if run is not None and against is not None:
        crossover = _crossover(run, against, spec, workload, target, costs, fed, recordings)
    if given["as_json"]:
        data = curve_data(curve, costs) | {"workload": workload.title, "target": str(target), "fed": fed}
        data["crossover"] = None if crossover is None else crossover_data(crossover)
        click.echo(json.dumps(data, ensure_ascii=False, allow_nan=False, indent=2))
    else:
        click.echo(predict_text(spec, workload, target, curve, costs, crossover))


def _card(name: str) -> tuple[GpuSpec, dict[str, GpuSpec]]:
    from core.store.database import data_dir

    try:
        cards = catalogue(load_own(data_dir() / FILE_NAME))
        return find_gpu(name, cards), cards
    except ValueError as error:
        raise BadInput(str(error)) from None


def _workload(given: dict[str, Any], run: Run | None) -> Workload:
    """Of the flags, or of the run, which flags must not contradict. Raises BadInput with a sentence."""
    named = [key for key in ("mode", "optimizer") if given[key] is not None]
    try:
        if run is None:
            chosen = {key: given[key] for key in named}
            return Workload.model_validate({"network": network_of(given)} | chosen)
        if run.plan is None:
            raise BadInput("Only points were imported for the run of --against; its network is not known.")
        named += [key for key in _network_flags() if given[key] is not None]
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None
    if named:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in named)
        raise BadInput(f"With --against network, mode and optimizer are the run's; leave out {flags}.")
    return run.plan.workload


def _network_flags() -> list[str]:
    @click.command()
    @network_options()
    def empty(**_: Any) -> None:
        """Only carries the options."""

    return [parameter.name for parameter in empty.params if parameter.name is not None]


def _target(given: dict[str, Any]) -> Target:
    return Target(device=GPU.device, precision=given["precision"], execution=given["execution"])


def _is_fed(given: dict[str, Any], run: Run | None) -> bool:
    """As asked, and where the run's own data are not resident on the device."""
    return bool(given["fed"]) or (run is not None and run.plan is not None and run.plan.pipeline.kind != "resident")


def _batches(text: str) -> tuple[int, ...]:
    try:
        return parse_batches(text)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _cpu_of(run: Run) -> tuple[Answer, int]:
    """The run's answer and its CPU target. Raises BadInput."""
    answer = answer_of(run)
    index = cpu_index(run, answer)
    if index is None:
        raise BadInput("The run of --against has no measured CPU target to compare with.")
    return answer, index


def _crossover(
    run: Run,
    against: tuple[Answer, int],
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    costs: HostCosts,
    fed: bool,
    recordings: tuple[Recording, ...],
) -> ModelledCrossover:
    answer, index = against
    curve = card_curve(spec, workload, target, batches_between(answer, index), costs, fed, recordings)
    return cross(run, answer, curve, index)


def _costs(given: dict[str, Any], workload: Workload) -> HostCosts:
    """The host's overhead: read, measured now, or assumed. Raises BadInput or Failure with a sentence."""
    if given["host"] is not None and given["measure_host"]:
        raise BadInput("--host reads a study that was measured before; leave out --measure-host.")
    if given["host_out"] is not None:
        if not given["measure_host"]:
            raise BadInput("--host-out writes what --measure-host measures; give both.")
        check_writable(given["host_out"])
    if given["host"] is None and not given["measure_host"]:
        return assumed_costs(given["execution"])
    study = _measure() if given["measure_host"] else _read(given["host"])
    if given["host_out"] is not None:
        write_file(given["host_out"], study.to_json(indent=1) + "\n")
        say(f"Wrote {given['host_out']}.")
    try:
        return host_of_study(study, workload.mode, given["execution"])
    except ValueError as error:
        raise BadInput(str(error)) from None


def _read(path: Path) -> HostStudy:
    """A study of another machine is recorded, not measured."""
    data = read_bytes(path, MAX_HOST_BYTES)
    if len(data) > MAX_HOST_BYTES:
        raise BadInput(f"{path} is too large for a host study; accepted is JSON of up to 8 MiB.")
    try:
        study = HostStudy.from_json(data)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    here, there = capture_environment(), study.environment
    if there is None or (there.hostname_hash, there.cpu) != (here.hostname_hash, here.cpu):
        return study.model_copy(update={"label": "recorded"})
    return study


def _measure() -> HostStudy:
    from core.measure.host_study import run_host_study

    study = run_study("Host overhead", run_host_study)
    for warning in study.warnings:
        say(f"Warning ({warning.code}): {warning.text}")
    return study


def predict_text(
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    curve: CardCurve,
    costs: HostCosts,
    crossover: ModelledCrossover | None,
) -> str:
    """What it says of the crossover first, then every batch, what is withheld and why, and what it rests on."""
    lines = [] if crossover is None else [crossover.sentence, ""]
    columns = ("batch", "step ms", "95 % from", "to", "limited by", "label")
    rows = [(f"{one.batch:,}", one.step_ms, one.low_ms, one.high_ms, one.limited_by, one.label) for one in curve.known]
    lines.append(f"Modelled, not measured: {workload.title} on {spec.title}, {target.precision}, {target.execution}")
    lines += table(columns, rows) if rows else []
    withheld = [point.batch for point in curve.points if point not in curve.known]
    if withheld:
        lines.append(f"Withheld at batch {', '.join(f'{batch:,}' for batch in withheld)}: {curve.reason}")
    lines += ["", *dict.fromkeys(f"Interval: {one.basis}" for one in curve.known)]
    op = costs.op
    spread = f" ({op.low_us:.3g} to {op.high_us:.3g})" if op.low_us is not None and op.high_us is not None else ""
    each = "" if target.execution == "xla" else f" and {op.us:.3g} µs{spread} an operation"
    lines.append(f"Host overhead is {costs.label}: {costs.step.us:.3g} µs a step{each}. {costs.source}")
    if curve.corrected_by:
        lines.append(f"Corrected by {curve.corrected_by}")
    return "\n".join(lines)
