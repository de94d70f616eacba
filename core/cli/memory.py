"""``memory``: the largest batch that fits, predicted, then confirmed under a limit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click
from pydantic import ValidationError

from core.analysis.memory_answer import MemoryAnswer, memory_answer, predict_memory
from core.cli.devices import target_of
from core.cli.files import BadInput, check_writable, write_file
from core.cli.model_code import launcher_for
from core.cli.networks import network_of, network_options
from core.cli.studying import run_study
from core.cli.sweep import say
from core.cli.text import size, table
from core.environment import available_memory_bytes, capture_environment, list_devices
from core.memory_export import memory_data
from core.memory_study import DEFAULT_BUDGET_S, MemoryPlan, MemoryStudy, Probe, default_limit_bytes, parse_bytes
from core.spec import Mode, Optimizer, Target, Workload, explain

if TYPE_CHECKING:
    from core.measure.memory_study import LimitedLauncher
    from core.store import Store


def _plan_options(function: Any) -> Any:
    options = [
        network_options(),
        click.option("--mode", type=click.Choice(get_args(Mode)), default="train", show_default=True),
        click.option("--optimizer", type=click.Choice(get_args(Optimizer)), default="adam", show_default=True),
        click.option("--target", help="Such as cpu or gpu:0,precision=mixed_float16 (default: the GPU, else the CPU)."),
        click.option("--limit", help="Memory it may use, such as 4GB (default: 90 % of what is free; most of a GPU)."),
        click.option("--budget", "budget_s", type=float, default=DEFAULT_BUDGET_S, show_default=True, help="Seconds."),
        click.option(
            "--store/--no-store", default=True, help="Learn from earlier studies and keep this (default: yes)."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command("memory")
@_plan_options
@click.option("--out", type=click.Path(path_type=Path), help="Write what it says and what was measured, in JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def memory_command(context: click.Context, out: Path | None, as_json: bool, store: bool, **_: Any) -> None:
    """Find the largest batch that fits into a memory limit: predict it, then try batches in processes that keep it.

    On a CPU the limit is of a worker's whole resident memory, TensorFlow itself included; on a GPU of what TensorFlow
    may take of the card. A worker that passes it ends, and nothing else does.
    """
    if out is not None:
        check_writable(out)
    plan = _plan(context.params)
    launcher = cast("LimitedLauncher", launcher_for(plan.workload.network, context.params["model"]))
    with _history(store) as history:
        earlier = _earlier(history)
        ahead = predict_memory(plan.workload, plan.target, plan.limit_bytes, earlier, capture_environment())
        say(f"{plan.title}. {ahead.sentence} {ahead.basis}")
        study = _measure(plan, earlier, launcher)
        _keep(history, study)
    answer = memory_answer(study, earlier)
    text = json.dumps(memory_data(study, answer), ensure_ascii=False, allow_nan=False, indent=2)
    if out is not None:
        write_file(out, text + "\n")
        say(f"Wrote {out}.")
    click.echo(text if as_json else memory_text(study, answer))


def _plan(given: dict[str, Any]) -> MemoryPlan:
    """The plan of the flags. Raises BadInput with a sentence."""
    try:
        target = target_of(given["target"])
        workload = Workload.model_validate(
            {"network": network_of(given), "mode": given["mode"], "optimizer": given["optimizer"]}
        )
        limit = _limit_bytes(target) if given["limit"] is None else parse_bytes(given["limit"])
        values = {"workload": workload, "target": target, "limit_bytes": limit, "budget_s": given["budget_s"]}
        return MemoryPlan.model_validate(values)
    except ValidationError as error:
        raise BadInput(explain(error)) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def _limit_bytes(target: Target) -> int:
    found = default_limit_bytes(target, available_memory_bytes(), list_devices().gpus)
    if found is None:
        raise ValueError(f"How much memory {target.device} has is not known here; say it with --limit, such as 16GB.")
    return found


@contextlib.contextmanager
def _history(wanted: bool) -> Iterator[Store | None]:
    """The store; None where it is not wanted or cannot be opened, which is said."""
    from core.store import Store, StoreError

    store = None
    if wanted:
        try:
            store = Store()
        except StoreError as error:
            say(f"{error} The study goes on without the history.")
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def _earlier(store: Store | None) -> tuple[MemoryStudy, ...]:
    """Stored memory studies, newest first; those that cannot be read are left out."""
    from core.store import StoreError

    found: list[MemoryStudy] = []
    if store is None:
        return ()
    try:
        for summary in store.studies("memory"):
            with contextlib.suppress(ValueError):
                found.append(MemoryStudy.from_json(store.load_study(summary.id)))
    except StoreError as error:
        say(f"Earlier studies cannot be read: {error}")
    return tuple(found)


def _keep(store: Store | None, study: MemoryStudy) -> None:
    from core.store import StoreError, new_run_id

    if store is None:
        return
    try:
        store.add_study("memory", new_run_id(), study.run_id, study.to_json())
    except StoreError as error:
        say(f"The study was not kept: {error}")


def _measure(plan: MemoryPlan, earlier: tuple[MemoryStudy, ...], launcher: LimitedLauncher) -> MemoryStudy:
    from core.measure.memory_study import run_memory_study

    return run_study(f"Memory of {plan.title}", lambda tools: run_memory_study(tools, plan, earlier, launcher))


def memory_text(study: MemoryStudy, answer: MemoryAnswer) -> str:
    """Verdict first, then what was tried, the parts, and how it was measured."""
    plan, parts = study.plan, answer.parts
    columns = ("batch", "peak", "predicted before", "95 % from", "to", "outcome")
    named = {
        "weights": parts.weights_bytes,
        "gradients": parts.gradients_bytes,
        "optimizer": parts.optimizer_bytes,
        "activations": parts.activations_bytes,
        "workspace": parts.workspace_bytes,
        "batch data": parts.data_bytes,
        "framework": answer.context_bytes,
    }
    lines = [answer.sentence, answer.prediction.sentence, answer.wrong.sentence, ""]
    lines += [*table(columns, [_row(probe) for probe in study.probes]), ""]
    listed = ", ".join(f"{name} {size(value)}" for name, value in named.items())
    lines.append(f"Predicted parts at batch {answer.parts_batch:,}: {listed}.")
    whose = "TensorFlow's allocator" if plan.target.is_gpu else "a whole worker process, TensorFlow included"
    lines.append(
        f"Peaks are {study.label}, of {whose}: {plan.title}, {len(study.probes)} batches in {study.elapsed_s:.0f} s, "
        f"{study.status}, {study.created_at}"
    )
    lines += [f"Batch {probe.batch:,}: {probe.reason}" for probe in study.probes if probe.reason]
    return "\n".join(lines)


def _row(probe: Probe) -> tuple[str | float | None, ...]:
    predicted = (probe.predicted_bytes, probe.predicted_low_bytes, probe.predicted_high_bytes)
    peak = "" if probe.peak_bytes is None else size(probe.peak_bytes)
    return probe.batch, peak, *map(size, predicted), probe.outcome.replace("_", " ")
