"""The ``predict`` command: modelled step times, with intervals, on a GPU that need not be here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import click

from core.base.files import look
from core.base.frameworks import Compiled
from core.base.numbers import number, table
from core.base.schema import UserError
from core.base.text import in_lines, sentence_case, shown
from core.cli.devices import is_this_machine
from core.cli.files import (
    FILE,
    BadInput,
    Failure,
    check_writable,
    conclude,
    json_flag,
    read_file,
    read_study,
    refusing,
    write_out,
)  # fmt: skip
from core.cli.gpus import own_path
from core.cli.networks import flag_of, network_flags, network_of, network_options
from core.cli.study_command import Asked, measured_part, store_option
from core.cli.terminal import say
from core.cli.verdict import answer_of
from core.hardware.catalogue import GpuSpec, catalogue, find_gpu, load_own
from core.hardware.compare import GPU, batches_between, cpu_index, not_modelled
from core.hardware.constants import EXECUTIONS, PRECISIONS
from core.hardware.crossing import ModelledCrossover, cross, if_named, named_sentence
from core.hardware.curve import CardCurve, card_curve, cases_of, conditions_of, recordings_of, spanned_words
from core.hardware.export import crossover_data, curve_data
from core.hardware.host import (
    BUILD_WORDS,
    NAMED_KINDS,
    USUAL_KIND,
    Build,
    Conditions,
    Cost,
    HostCosts,
    HostKind,
    Modelling,
    costs_of_kind,
)
from core.hardware.host_record import HostStudy
from core.hardware.host_study import host_of_study, with_loop_of
from core.hardware.model import modelled_as
from core.rounds.answer.answer import Answer
from core.rounds.answer.best_cpu import choice_line
from core.rounds.answer.loop import loop_of
from core.rounds.run import Run
from core.studies.host.kind import HOST
from core.studies.host.run import HostPlan
from core.studies.selfcheck.export import read_self_check
from core.workload.execution import expected
from core.workload.spec import Mode, Optimizer, Target, Workload, parse_batches

DEFAULT_BATCHES = "1:4096"


class _Host(click.ParamType):
    """Parameter type of --host: a kind of host by its word, anything else a path."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> HostKind | Path:  # noqa: ARG002
        return value if value in NAMED_KINDS else Path(value)


@click.command("predict")
@click.option("--gpu", required=True, help="A card of “python -m core gpus”, such as A100-80GB-SXM.")
@network_options()
@click.option("--mode", type=click.Choice(get_args(Mode)), help="Default: train.")
@click.option("--optimizer", type=click.Choice(get_args(Optimizer)), help="Default: adam.")
@click.option("--batches", default=DEFAULT_BATCHES, show_default=True, help="1:4096, 1:4096:2 or 1,8,64.")
@click.option("--precision", type=click.Choice(PRECISIONS), default="float32", show_default=True)
@click.option("--execution", type=click.Choice(EXECUTIONS), default="keras", show_default=True)
@click.option("--fed", is_flag=True, help="Each batch comes over the link (default: data on the card).")
@click.option(
    "--implementation",
    type=click.Choice(get_args(Build)),
    default="unnamed",
    show_default=True,
    help="keras: Keras 3 as installed; fused: a vendor's build that runs normalisation, loss and optimizer as "
    "one kernel each; unnamed: the interval spans both.",
)
@click.option("--under-fit", is_flag=True, help="Add what the loop of fit itself costs per step on that host.")
@click.option(
    "--host",
    type=_Host(),
    metavar=f"{'|'.join(NAMED_KINDS)}|FILE",
    help="What drives the card: a weak cloud machine (2 virtual cores), a desktop or a server of before 2020 or later, "
    "or FILE, a host study measured before or a self-check's file (./weak for one of that name). Default: the interval "
    "spans the hosts in which such cards are found.",
)
@click.option("--measure-host", is_flag=True, help="Measure the host's overhead on this machine, some 15 s.")
@store_option
@click.option("--host-out", type=FILE, help="Write the host study, for --host.")
@click.option("--against", type=FILE, help="A run whose CPU it is compared with, JSON.")
@click.option("--recorded", multiple=True, type=FILE, help="A run on such a card, which corrects.")
@json_flag
@click.pass_context
def predict_command(context: click.Context, **_: Any) -> None:
    """Model the step times of a network on a GPU that need not be here, with 95 % intervals.

    With --against the network is that of the run, and the batch from which the card would be faster than the run's CPU
    is printed too. Nothing runs on a GPU; with --measure-host the overhead of this machine's CPU is measured first.
    """
    flags = context.params
    spec, cards = _card(flags["gpu"])
    run = read_file(flags["against"]) if flags["against"] is not None else None
    workload, conditions = _workload(flags, run), _conditions(flags, run)
    target = conditions.as_built(_target(flags))
    with refusing():
        batches = parse_batches(flags["batches"])
    if (why := not_modelled(workload)) is not None:
        say(why)
    recordings = recordings_of([read_file(path) for path in flags["recorded"]], cards)
    if flags["recorded"] and all(recording.gpu != spec.name for recording in recordings):
        raise BadInput(f"No run given by --recorded ran on {spec.name}.")
    against = None if run is None else _cpu_of(run)
    costs, unwritten = _costs(flags, workload, expected(workload.network, target).execution, run, against)
    how = Modelling(workload, target, costs, conditions)
    curve, crossover = card_curve(spec, how, batches, recordings), None
    named: tuple[tuple[Build, ModelledCrossover], ...] = ()
    if run is not None and against is not None:
        # the run's own steps were measured without the loop of fit, so the card's are compared without it
        bare = replace(how, conditions=replace(conditions, under_fit=False))
        shared = batches_between(*against)
        crossover = cross(run, against[0], card_curve(spec, bare, shared, recordings), against[1])
        named = if_named(run, *against, spec, bare, shared, recordings)
    if flags["as_json"]:
        data = curve_data(curve, costs) | {"workload": workload.title, "target": str(target), **conditions.chosen}
        data["settings"] = modelled_as(spec, workload, target)
        data["crossover"] = None if crossover is None else crossover_data(crossover)
        data["if_named"] = {build: crossover_data(each) for build, each in named}
        conclude(None, data, unwritten)
    else:
        text = predict_text(spec, how, curve, crossover, named_sentence(named))
        if run is not None and against is not None:
            text = f"{text}\n{choice_line(run, against[0])}"
        conclude(text, None, unwritten)


def _card(name: str) -> tuple[GpuSpec, dict[str, GpuSpec]]:
    with refusing():
        cards = catalogue(load_own(own_path()))
        return find_gpu(name, cards), cards


def _workload(flags: dict[str, Any], run: Run | None) -> Workload:
    """Return the workload of the flags, or of the run, which flags must not contradict. Raises BadInput."""
    named = [key for key in ("mode", "optimizer") if flags[key] is not None]
    if run is None:
        with refusing():
            return Workload.model_validate({"network": network_of(flags)} | {key: flags[key] for key in named})
    if run.plan is None:
        raise BadInput("Only points were imported for the run of --against; its network is not known.")
    named += [key for key in network_flags() if flags[key] is not None]
    if named:
        contradicting = ", ".join(flag_of(key) for key in named)
        raise BadInput(f"With --against network, mode and optimizer are the run's; leave out {contradicting}.")
    return run.plan.workload


def _target(flags: dict[str, Any]) -> Target:
    return Target(device=GPU.device, precision=flags["precision"], execution=flags["execution"])


def _conditions(flags: dict[str, Any], run: Run | None) -> Conditions:
    """Return the requested conditions; data also come over the link if the run's data do."""
    fed = flags["fed"] or (run is not None and run.plan is not None and conditions_of(run.plan).fed)
    return Conditions(fed=fed, build=flags["implementation"], under_fit=flags["under_fit"])


def _cpu_of(run: Run) -> tuple[Answer, int]:
    """Return the run's answer and its CPU target. Raises BadInput."""
    answer = answer_of(run)
    index = cpu_index(run, answer)
    if index is None:
        raise BadInput("The run of --against has no measured CPU target to compare with.")
    return answer, index


def _costs(
    flags: dict[str, Any],
    workload: Workload,
    execution: Compiled,
    run: Run | None,
    against: tuple[Answer, int] | None,
) -> tuple[HostCosts, Failure | None]:
    """Return the host's overhead, read, measured now, or assumed, and the failure to write its file.

    Raises BadInput or Failure.
    """
    host: HostKind | Path | None = flags["host"]
    if host is not None and flags["measure_host"]:
        raise BadInput("--host says what drives the card; leave out --measure-host, or --host.")
    if flags["host_out"] is not None:
        if not flags["measure_host"]:
            raise BadInput("--host-out writes what --measure-host measures; give both.")
        check_writable(flags["host_out"])
    if not flags["measure_host"] and not isinstance(host, Path):
        return costs_of_kind(host or USUAL_KIND, execution), None
    study = _measure(flags["store"]) if flags["measure_host"] else _read(cast(Path, host))
    unwritten = write_out(flags["host_out"], study.to_json(indent=1))
    with refusing():
        costs = host_of_study(study, workload.mode, execution)
    if run is not None and against is not None:
        costs = with_loop_of(costs, study.environment, run, against[1])
    return costs, unwritten


def _read(path: Path) -> HostStudy:
    """Read a host study, or a self-check's; one from another machine counts as recorded. Raises BadInput."""
    if look(path) is None and path.name == str(path) and path.name not in NAMED_KINDS:
        raise BadInput(f"“{shown(str(path))}” is neither a kind of host ({', '.join(NAMED_KINDS)}) nor a file.")
    study = _of_self_check(path) or read_study(HOST, path)
    return study if is_this_machine(study.environment) else study.model_copy(update={"label": "recorded"})


def _of_self_check(path: Path) -> HostStudy | None:
    """Return a self-check's host study, None if the file is another kind. Raises BadInput if it has none."""
    try:
        record, _ = read_self_check(path)
    except UserError:
        return None
    if record.host is None:
        why = record.readings.missing.get("floor", "It was not read.")
        raise BadInput(f"The self-check of {shown(str(path))} does not have what the host costs: {why}")
    return record.host


def _measure(store: bool) -> HostStudy:
    study = measured_part(HOST, Asked(HostPlan()), store)
    for warning in study.warnings:
        say(f"Note: {warning.text}")
    return study


def predict_text(
    spec: GpuSpec, how: Modelling, curve: CardCurve, crossover: ModelledCrossover | None, named: str = ""
) -> str:
    """Return the crossover first, then every batch, what is withheld and why, and the basis of the numbers."""
    workload, costs, conditions = how.workload, how.costs, how.conditions
    loop = loop_of(workload)
    lines = [] if crossover is None else [crossover.sentence, *([named] if named else []), ""]
    if crossover is not None and conditions.under_fit:
        lines.insert(1, f"That compares steps without what {loop} itself costs, as the run was measured.")
    settings = modelled_as(spec, workload, how.target)
    columns = ("batch", "step ms", "95 % from", "to", "samples/s", "limited by", "label")
    rows = [
        (f"{at.batch:,}", at.step_ms, at.low_ms, at.high_ms, 1000 * at.batch / at.step_ms, at.limited_by, at.label)
        for at in curve.known
    ]
    lines.append(f"Modelled, not measured: {workload.title} on {spec.title}: {settings}")
    held = "with" if conditions.under_fit else "without"
    ways = [] if conditions.build == "unnamed" else [f"run by {BUILD_WORDS[conditions.build]}"]
    ways += [] if costs.kind == USUAL_KIND else [f"host: {costs.words}"]
    lines.append(sentence_case("; ".join([*ways, f"{held} what {loop} itself costs per step."])))
    if spanned := spanned_words(cases_of(spec, how)):
        lines.append(f"Not named, so that the interval spans: {spanned}. --implementation and --host name them.")
    lines += table(columns, rows) if rows else []
    withheld = [point.batch for point in curve.points if point not in curve.known]
    if withheld:
        lines.append(f"Withheld at batch {', '.join(f'{batch:,}' for batch in withheld)}: {curve.reason}")
    lines += ["", *dict.fromkeys(f"Interval: {at.basis}" for at in curve.known)]
    each = "" if costs.execution == "xla" else f" and {_us(costs.op)} per operation"
    lines.append(f"Host overhead is {costs.label}: {number(costs.step.us)} µs per step{each}. {costs.source}")
    if conditions.under_fit:
        fit = costs.fit
        source = "" if fit.source == costs.source else f" {fit.source}."
        lines.append(f"What {loop} itself costs is {fit.label}: {_us(fit)} per step.{source}")
    if curve.corrected_by:
        lines.append(f"Corrected by {curve.corrected_by}")
    return in_lines(lines)


def _us(cost: Cost) -> str:
    """Format microseconds, with the interval in parentheses if known."""
    known = cost.low_us is not None and cost.high_us is not None
    return f"{number(cost.us)} µs" + (f" ({number(cost.low_us or 0)} to {number(cost.high_us or 0)})" if known else "")
