"""A short profiler trace of a prepared cell, partitioned in the worker and reduced to fit a reply. No framework.

TensorFlow and JAX have the same profiler and file format; PyTorch's writes JSON.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_json

from core.traces.events import TraceError
from core.traces.reading import READERS
from core.traces.record import MAX_NOTE_CHARS, MAX_NOTES, PARTS, DeviceTrace, HostOp, Span, StepParts, TraceReport
from core.traces.report import report
from core.worker.protocol import MAX_LINE_BYTES, CellFailed
from core.worker.step import Step
from core.workload.names import all_of

SHORT_CHARS = 400
"""Length of shortened names of a lane, an event or an operation: more than a hover shows (timeline_figure.py)."""
_TAIL_CHARS = 99


class Cut(NamedTuple):
    """A device's trace, the host operations beside it, and notes on both."""

    device: DeviceTrace
    host_ops: tuple[HostOp, ...]
    notes: tuple[str, ...]

    def size(self) -> int:
        """Return the size as JSON in bytes."""
        return sum(len(to_json(part)) for part in self)


def within(most_bytes: int, whole: Cut) -> Cut:
    """Return the whole if it fits, else with long names shortened, else with fewer spans and operations, too.

    The longest spans and the costliest operations are kept. Steps and the costliest kernels are never cut; 200 steps
    and 20 kernels with names of 4,000 characters, each of six bytes, take 0.6 MB.
    """
    whole = whole._replace(notes=tuple(shortened(note, MAX_NOTE_CHARS) for note in whole.notes[: MAX_NOTES - 3]))
    cut = whole
    for cut in _smaller(whole):
        if cut.size() <= most_bytes:
            break
    return cut


def shortened(text: str, chars: int = SHORT_CHARS) -> str:
    """Return a long text's beginning and end, ``chars`` characters in all; the result depends on the text alone."""
    if len(text) <= chars:
        return text
    tail = min(_TAIL_CHARS, chars // 2)
    return f"{text[: chars - 1 - tail]}…{text[-tail:]}"


def _smaller(whole: Cut) -> Iterator[Cut]:
    yield whole
    device = whole.device
    spans = tuple(
        span.model_copy(update={"lane": shortened(span.lane), "name": shortened(span.name)}) for span in device.timeline
    )
    ops = tuple(
        op.model_copy(update={"name": shortened(op.name), "op_type": shortened(op.op_type)}) for op in whole.host_ops
    )
    notes = [*whole.notes]
    if spans != device.timeline or ops != whole.host_ops:
        notes.append(f"Names of more than {SHORT_CHARS} characters are shortened, but for the kernels that cost most.")
    most_spans, most_ops = len(spans), len(ops)
    while True:
        kept, sentences = longest(spans, most_spans), list(notes)
        if most_spans < len(spans):
            sentences.append(
                f"Of {len(spans):,} events of the timeline the {most_spans:,} longest are kept, for their size."
            )
        if most_ops < len(ops):
            sentences.append(
                f"Of {len(ops):,} operations on the host the {most_ops:,} that cost most are kept, for their size."
            )
        yield Cut(device.model_copy(update={"timeline": kept}), ops[:most_ops], tuple(sentences))
        if not most_spans and not most_ops:
            return
        most_spans, most_ops = most_spans // 2, most_ops // 2


def longest(spans: tuple[Span, ...], most: int) -> tuple[Span, ...]:
    """Return the longest spans, in the order of a timeline."""
    if len(spans) <= most:
        return spans
    kept = sorted(spans, key=lambda span: -span.length_ms)[:most]
    return tuple(sorted(kept, key=lambda span: (span.lane, span.start_ms)))


SPANS = 1_200
"""Events of the timeline: enough for a picture."""
TRACE_BYTES = MAX_LINE_BYTES - 64 * 1024
"""For the device, the host operations and the notes; the rest is for the few numbers beside them."""


def reply_fields(trace: TraceReport, steps: int, per_call: int) -> dict[str, Any]:
    """Return fields of :class:`core.worker.protocol.Traced` from a trace of ``steps`` calls.

    Each call runs ``per_call`` steps. Raises CellFailed if the trace cannot be of these.
    """
    device = _all_reduced(trace.devices)
    if len(device.steps) > steps:
        raise CellFailed("error", f"The profiler's trace shows {len(device.steps):,} steps, but {steps} were run.")
    notes, shown = list(trace.notes), longest(device.timeline, SPANS)
    if others := [other.device for other in trace.devices[1:]]:
        notes.append(f"Shown are the steps of {device.device}; {all_of(others)} ran their own share of each.")
    if len(shown) < len(device.timeline):
        notes.append(f"Stored are the {len(shown):,} longest of the {len(device.timeline):,} events of the timeline.")
    device = _a_step_each(device, per_call).model_copy(update={"timeline": shown})
    cut = within(TRACE_BYTES, Cut(device, trace.host_ops, tuple(notes)))
    return {
        "device": cut.device,
        "host_ops": cut.host_ops,
        "notes": cut.notes,
        "retraces": trace.retraces,
        "dropped_events": trace.dropped_events,
    }


def _all_reduced(devices: tuple[DeviceTrace, ...]) -> DeviceTrace:
    """Return the first device with the shortest all-reduces of all: the others' include waiting for the last device."""
    first = devices[0]
    alike = [device.all_reduces_ms for device in devices if len(device.all_reduces_ms) == len(first.steps)]
    return first.model_copy(update={"all_reduces_ms": min(alike, key=sum, default=())})


def _a_step_each(device: DeviceTrace, per_call: int) -> DeviceTrace:
    """Divide each annotated call's parts among its steps."""
    if per_call == 1:
        return device
    shares = ({f"{part}_ms": call.part_ms(part) / per_call for part in PARTS} for call in device.steps)
    steps = tuple(StepParts(step_ms=sum(parts.values()), **parts) for parts in shares)
    exchanges_ms = tuple(ms / per_call for ms in device.all_reduces_ms)
    return device.model_copy(update={"steps": steps, "all_reduces_ms": exchanges_ms})


HOST_TRACER_LEVEL = 2  # operations; level 1 shows calls only, level 3 every cheap operation, at a higher cost per step
UNPROFILED_BLOCKS = 3
WAITED = (
    "Each traced step was waited for, since {title} works on after a call has come back; in blocks, as in training, "
    "the next call is prepared meanwhile."
)


class Profiler(Protocol):
    """A framework's profiler; ``title`` is the framework's name in a sentence.

    ``waits``: whether to wait for every traced step. It is needed where a call returns before its work on a CPU has
    begun, which would then fall outside the step.
    """

    title: str
    waits: bool

    def start(self, folder: str) -> None: ...
    def stop(self) -> None: ...
    def step(self, number: int) -> AbstractContextManager[Any]:
        """Annotate one call, so that the trace shows it as a step."""
        ...


def trace_steps(
    step: Step, steps: int, host_nodes: frozenset[str] | None, devices: tuple[str, ...], profiler: Profiler
) -> dict[str, Any]:
    """Return fields of :class:`core.worker.protocol.Traced`, from ``steps`` calls of the step under the profiler.

    ``devices`` are the trace's names of the step's devices. The same steps are timed without the profiler before and
    after. Raises CellFailed if the trace cannot be used.
    """
    calls = steps * step.per_call
    plain_ms = [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    with tempfile.TemporaryDirectory(prefix="breakeven-trace-") as folder:
        profiler.start(folder)
        try:
            profiled_ms = _profiled(step, steps, profiler)
        finally:
            profiler.stop()
        files = [(file, read) for pattern, read in READERS.items() for file in Path(folder).rglob(pattern)]
        if not files:
            raise CellFailed("error", f"{profiler.title}'s profiler wrote no trace.")
        file, read = files[0]
        try:
            trace = report(read(file), host_nodes, devices)
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    plain_ms += [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    fields = reply_fields(trace, steps, step.per_call)
    if profiler.waits:
        fields["notes"] = (*fields["notes"], WAITED.format(title=profiler.title))
    return fields | {
        "profiled_step_ms": profiled_ms / steps / step.per_call,
        "unprofiled_step_ms": median(plain_ms),
    }


def _profiled(step: Step, steps: int, profiler: Profiler) -> float:
    """Run annotated steps and wait for the device; return milliseconds."""
    with step.mode():
        start = time.perf_counter_ns()
        for number in range(steps):
            with profiler.step(number):
                last = step.call()
                if profiler.waits:
                    step.wait(last)
        step.wait(last)
        return (time.perf_counter_ns() - start) * 1e-6
