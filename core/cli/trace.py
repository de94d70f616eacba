"""The ``trace`` command: one more batch of a stored run, or the content of a trace file, by device and step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from core.base.files import is_folder, look, read_limited, reason
from core.base.numbers import counted, number, percent, table
from core.base.schema import UserError
from core.base.text import in_lines, shown
from core.cli.devices import is_this_machine
from core.cli.files import FILE, BadInput, check_writable, conclude, json_flag, read_file, refusing, write_out
from core.cli.model_code import launcher_for, model_permission
from core.cli.study_command import Asked, History, measured_part, store_option
from core.cli.terminal import show, show_json
from core.rounds.run import Run
from core.rounds.show.imports import MAX_BYTES
from core.studies.sweep.trace import TRACE, CellToTrace, traceable_batches, why_untraceable
from core.traces.record import PARTS, STEPS_FROM, DeviceTrace, HostOp, Part, TracedCell, TraceReport
from core.workload.names import all_of

PATTERN = "*.xplane.pb"
RUN_ID = re.compile(r"[\w-]{1,64}")
SHOWN_KERNELS, SHOWN_HOST_OPS, NAME_CHARS = 10, 20, 72
_GPU_WORDS: dict[Part, str] = {
    "compute": "compute",
    "d2h": "copy to the host",
    "d2d": "copy between devices",
    "h2d": "copy to the device",
    "input": "waiting for input",
    "launch": "launch and host",
    "other": "other",
}
_CPU_WORDS = _GPU_WORDS | {"launch": "framework between operations"}


@click.command()
@click.argument("what", metavar="RUN|FILE", type=FILE)
@click.option("--target", help="Of a run: which of its targets, as commands write it (default: the last).")
@click.option("--batch", type=int, help="Of a run: which measured batch (default: the middle one).")
@click.option("--out", type=FILE, help="Of a run: write it with its new trace, in JSON.")
@model_permission
@json_flag
@store_option
def trace(
    what: Path, target: str | None, batch: int | None, out: Path | None, model: str | None, as_json: bool, store: bool
) -> None:
    """Trace one batch of a stored run here, or read a profiler's trace file: the parts of each step.

    A run is named by its id in the history, or by its file; it must have been measured on this machine. One worker
    prepares the step and runs it with and without the profiler. The trace is kept with the run in the history, in place
    of an earlier one of the same target and batch.

    FILE is a trace of TensorFlow's or JAX's profiler (a file *.xplane.pb), or a folder with exactly one below it, or
    one of PyTorch's (*.json or *.json.gz, by export_chrome_trace). The times are those of profiled steps, recorded
    wherever the trace was made; a profiler slows small steps down.
    """
    if (run := _run(what, store)) is not None:
        _trace_run(*run, target, batch, out, model, as_json)
        return
    if (target, batch, out, model) != (None, None, None, None):
        raise BadInput(f"--target, --batch, --out and --model are for a run; {shown(str(what))} is none.")
    file = _find(what)
    report = _report(file)
    if as_json:
        show_json(trace_data(file.name, report))
    else:
        show(trace_text(report, f"{file.name}: times of profiled steps, recorded"))


def _run(what: Path, store: bool) -> tuple[Run, bool] | None:
    """Return the run with that file or id, and whether the history here has it; None if it names neither."""
    run = read_file(what) if _holds_run(what) else None
    if run is None and (look(what) is not None or not RUN_ID.fullmatch(str(what))):
        return None
    with History(store) as history:
        kept = history.run(str(what) if run is None else run.id)
    return (kept, True) if kept is not None else None if run is None else (run, False)


def _holds_run(path: Path) -> bool:
    """Tell a run's file from a profiler's: a CSV file, or JSON with a schema version and without events."""
    try:
        if look(path) is None or is_folder(path) or path.suffix.lower() not in (".csv", ".json"):
            return False
        data = read_limited(path, MAX_BYTES, "a run")
    except UserError:
        return False  # too large for a run
    return path.suffix.lower() == ".csv" or (b'"schema_version"' in data and b'"traceEvents"' not in data)


def _trace_run(
    run: Run,
    in_history: bool,
    target: str | None,
    batch: int | None,
    out: Path | None,
    model: str | None,
    as_json: bool,
) -> None:
    if out is not None:
        check_writable(out)
    if (why := why_untraceable(run)) is not None:
        raise BadInput(why)
    if not is_this_machine(run.environment):
        raise BadInput("This run was measured on another machine, so a trace from this one would not belong to it.")
    assert run.plan is not None  # else it is not traceable
    cell = CellToTrace(run, *_choices(run, target, batch))
    launcher = launcher_for(run.plan.workload.network, model)
    note = () if in_history else ("The trace is not kept in the history; only --out keeps it.",)
    request = Asked(cell, says=(f"{TRACE.describe(cell)}, {run.name}", *note), launcher=launcher)
    traced = measured_part(TRACE, request, store=in_history)
    others = (old for old in run.traces if (old.target, old.batch) != (traced.target, traced.batch))
    unwritten = write_out(out, run.model_copy(update={"traces": (*others, traced)}).to_json())
    conclude(_cell_text(run, traced), _cell_data(run, traced) if as_json else None, unwritten)


def _choices(run: Run, target: str | None, batch: int | None) -> tuple[int, int]:
    """Return the index of the target, and the batch. Raises BadInput."""
    if target is not None and target not in run.target_names:
        raise BadInput(f"“{target}” is no target of this run; it has {all_of(run.target_names)}.")
    index = len(run.target_names) - 1 if target is None else run.target_names.index(target)
    batches = traceable_batches(run, index)
    if not batches:
        raise BadInput(f"No batch of {run.names[index]} was measured, so there is none to trace.")
    if batch is not None and batch not in batches:
        raise BadInput(f"Batch {batch} was not measured; {run.names[index]} has {all_of([f'{b:,}' for b in batches])}.")
    return index, batches[len(batches) // 2] if batch is None else batch


def _cell_report(cell: TracedCell) -> TraceReport:
    return TraceReport(
        devices=(cell.device,), host_ops=cell.host_ops, retraces=cell.retraces,
        dropped_events=cell.dropped_events or 0, notes=cell.notes,
    )  # fmt: skip


def _cell_text(run: Run, cell: TracedCell) -> str:
    trust = "" if cell.trusted else "; the split is not to be trusted"
    slowed = (
        f"A step takes {number(cell.profiled_step_ms)} ms under the profiler and {number(cell.unprofiled_step_ms)} ms "
        f"without it ({number(cell.profiler_ratio)}×{trust})."
    )
    title = f"{run.names[cell.target]} at batch {cell.batch:,}: times of profiled steps, measured"
    return trace_text(_cell_report(cell), title, slowed)


def _cell_data(run: Run, cell: TracedCell) -> dict[str, Any]:
    return {
        "run": run.id,
        "target": run.target_names[cell.target],
        "batch": cell.batch,
        "profiled_step_ms": cell.profiled_step_ms,
        "unprofiled_step_ms": cell.unprofiled_step_ms,
        "trusted": cell.trusted,
        **_report_data(_cell_report(cell)),
    }


def _report(file: Path) -> TraceReport:
    from core.traces.events import TraceError
    from core.traces.reading import read_report

    try:
        return read_report(file)
    except TraceError as error:
        raise BadInput(str(error)) from None


def _find(path: Path) -> Path:
    """Return the file itself, or the only trace below a folder. Raises BadInput."""
    place = shown(str(path))
    with refusing():
        if look(path) is None:
            raise BadInput(
                f"{place} does not exist; accepted is a trace {PATTERN}, a folder with one below "
                "it, and a run: its file, or its id in the history."
            )
        if not is_folder(path):
            return path
    try:
        traces = sorted(path.rglob(PATTERN))
        there = ", ".join(sorted(item.name for item in path.iterdir())[:5]) or "nothing"
    except OSError as error:
        raise BadInput(f"{place} cannot be read: {reason(error)}.") from None
    if len(traces) == 1:
        return traces[0]
    if traces:
        names = ", ".join(str(file.relative_to(path)) for file in traces[:5]) + (", …" if len(traces) > 5 else "")
        raise BadInput(f"{place} holds {len(traces)} traces: name one of {names}.")
    raise BadInput(f"{place} holds no trace {PATTERN}; there is {there}.")


def trace_data(file: str, report: TraceReport) -> dict[str, Any]:
    """Return the data of ``--json``. Durations are milliseconds."""
    return {"file": file, **_report_data(report)}


def _report_data(report: TraceReport) -> dict[str, Any]:
    return {
        "devices": [_device_data(device) for device in report.devices],
        "host_ops": [op.model_dump() for op in report.host_ops],
        "retraces": report.retraces,
        "dropped_events": report.dropped_events,
        "notes": list(report.notes),
    }


def _device_data(device: DeviceTrace) -> dict[str, Any]:
    return {
        "device": device.device,
        "steps": [step.model_dump() | {"overhead_share": step.overhead_share} for step in device.steps],
        "kernels": device.kernels,
        "busy_ms": device.busy_ms,
        "span_ms": device.span_ms,
        "steps_from": device.steps_from,
        "h2d_bytes": device.h2d_bytes,
        "d2h_bytes": device.d2h_bytes,
        "all_reduces_ms": list(device.all_reduces_ms),
        "top_kernels": [kernel.model_dump() for kernel in device.top],
    }


def trace_text(report: TraceReport, *first: str) -> str:
    """Return the printed text, one paragraph per topic, after the ``first`` lines."""
    parts: list[Sequence[str]] = [first, *(_device_lines(device) for device in report.devices)]
    if report.host_ops:
        parts.append(["Operations that ran on the host:", *_host_lines(report.host_ops)])
    if report.retraces:
        times = "once" if report.retraces == 1 else f"{report.retraces} times"
        advice = f"A tf.function was traced again {times} within the steps; keep its inputs' shapes and types fixed."
        parts.append([advice])
    if report.dropped_events:
        lost = counted(report.dropped_events, "event")
        parts.append([f"The profiler lost {lost}, so the shares are not to be trusted; trace fewer steps."])
    if report.notes:
        parts.append([f"Note: {note}" for note in report.notes])
    return "\n\n".join(map(in_lines, parts))


def _device_lines(device: DeviceTrace) -> list[str]:
    mean, words = device.mean(), _CPU_WORDS if device.device == "CPU" else _GPU_WORDS
    steps = f"{counted(len(device.steps), 'step')} ({STEPS_FROM[device.steps_from]})"
    works = "operation" if device.device == "CPU" else "kernel"
    parts: tuple[Part, ...] = ("compute", "input", "launch") if device.device == "CPU" else PARTS
    rows = [(words[part], mean.part_ms(part), f"{percent(mean.part_ms(part) / mean.step_ms, 1)}") for part in parts]
    kernels = [(_short(kernel.name), float(kernel.count), kernel.total_ms) for kernel in device.top[:SHOWN_KERNELS]]
    exchange_ms = device.all_reduce_ms
    exchange = "" if exchange_ms is None else f", all-reduce {percent(exchange_ms / mean.step_ms, 1)}"
    return [
        f"{device.device}: {steps}, {counted(device.kernels, works)}, overhead share {percent(mean.overhead_share, 1)}"
        f"{exchange}",
        *table(("mean step", "ms", "share"), [*rows, ("step", mean.step_ms, percent(1.0, 1))]),
        "",
        *table((f"{works}s that cost most", "count", "total ms"), kernels),
    ]


def _host_lines(ops: tuple[HostOp, ...]) -> list[str]:
    rows = [
        (
            _short(op.name),
            op.op_type,
            float(op.count),
            op.total_ms,
            f"expected ({op.why})" if op.expected else "fell back",
            "unknown" if op.moved_bytes is None else f"{op.moved_bytes:,}",
        )
        for op in sorted(ops, key=lambda op: op.expected)[:SHOWN_HOST_OPS]
    ]
    left = len(ops) - len(rows)
    more = [f"and {left:,} more; --json has all"] if left else []
    return [*table(("operation", "type", "count", "total ms", "why", "moved bytes"), rows), *more]


def _short(name: str) -> str:
    """Shorten a long name (a kernel with its template arguments can have hundreds of characters)."""
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"
