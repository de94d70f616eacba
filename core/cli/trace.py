"""The ``trace`` command: the content of a profiler trace from any source, by device and step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.base.files import is_folder, look, reason
from core.base.numbers import counted, percent, table
from core.base.text import in_lines, shown
from core.cli.files import FILE, BadInput, json_flag, refusing
from core.cli.terminal import show, show_json
from core.traces.record import PARTS, DeviceTrace, HostOp, Part, TraceReport

PATTERN = "*.xplane.pb"
CHROME = ".json"
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
_STEPS_FROM = {
    "steps line": "marked in the trace",
    "host steps": "from the steps annotated on the host",
    "whole trace": "the whole trace as one step",
}


@click.command()
@click.argument("path", type=FILE)
@json_flag
def trace(path: Path, as_json: bool) -> None:
    """Divide the steps in a profiler trace into compute, copies, input, launch and other time.

    PATH is a trace of TensorFlow's or JAX's profiler (a file *.xplane.pb), or a folder with exactly one below it, or
    one of PyTorch's (*.json, by export_chrome_trace). The times are those of profiled steps, recorded wherever the
    trace was made; a profiler slows small steps down.
    """
    file = _find(path)
    report = _report(file)
    if as_json:
        show_json(trace_data(file.name, report))
    else:
        show(trace_text(file.name, report))


def _report(file: Path) -> TraceReport:
    from core.traces import chrome, xplane
    from core.traces.events import TraceError
    from core.traces.report import report

    try:
        return report((chrome if file.suffix.lower() == CHROME else xplane).read(file))
    except TraceError as error:
        raise BadInput(str(error)) from None


def _find(path: Path) -> Path:
    """Return the file itself, or the only trace below a folder. Raises BadInput."""
    place = shown(str(path))
    with refusing():
        if look(path) is None:
            raise BadInput(f"{place} does not exist; accepted is a trace {PATTERN}, or a folder with one below it.")
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
    return {
        "file": file,
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


def trace_text(file: str, report: TraceReport) -> str:
    """Return the printed text, one paragraph per topic."""
    parts = [[f"{file}: times of profiled steps, recorded"], *(_device_lines(device) for device in report.devices)]
    if report.host_ops:
        parts.append(["Operations that ran on the host:", *_host_lines(report.host_ops)])
    if report.retraces:
        times = "once" if report.retraces == 1 else f"{report.retraces} times"
        said = f"A tf.function was traced again {times} within the steps; keep its inputs' shapes and types fixed."
        parts.append([said])
    if report.dropped_events:
        lost = counted(report.dropped_events, "event")
        parts.append([f"The profiler lost {lost}, so the shares are not to be trusted; trace fewer steps."])
    if report.notes:
        parts.append([f"Note: {note}" for note in report.notes])
    return "\n\n".join(map(in_lines, parts))


def _device_lines(device: DeviceTrace) -> list[str]:
    mean, words = device.mean(), _CPU_WORDS if device.device == "CPU" else _GPU_WORDS
    steps = f"{counted(len(device.steps), 'step')} ({_STEPS_FROM[device.steps_from]})"
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
