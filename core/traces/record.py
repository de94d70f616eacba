"""Content of a profiler trace of a few steps on one device: the parts of each step, kernels, host operations.

Shared by the trace reader, results, figures, pages and the command line. Durations are milliseconds of the traced
(profiled) steps. Each step is partitioned (docs/design.md, Overhead share): the parts sum to the step; overlapping time
is charged once, to the part that comes first in :data:`PARTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, SerializerFunctionWrapHandler, field_serializer, field_validator, model_validator

from core.base.evidence import TargetIndex
from core.base.schema import Frozen

COLUMNS = ("lane", "name", "part", "start_ms", "length_ms")
_TEXTS = ("lane", "name")


def packed(spans: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return ``texts``, and ``spans`` as rows of :data:`COLUMNS`, with lane and name as indices into the texts."""
    places: dict[str, int] = {}
    rows = [
        [places.setdefault(span[key], len(places)) if key in _TEXTS else span[key] for key in COLUMNS] for span in spans
    ]
    return {"texts": list(places), "spans": rows}


def unpacked(timeline: Any, most: int) -> Any:
    """Return the spans of a packed timeline; other input (an old file's, or Python objects) is returned unchanged.

    Raises ValueError for more than ``most`` spans, or for one without its texts.
    """
    if not isinstance(timeline, Mapping):
        return timeline
    if set(timeline) != {"texts", "spans"} or not all(isinstance(part, list) for part in timeline.values()):
        raise ValueError("a timeline must hold a list of texts and a list of spans")
    texts, rows = timeline["texts"], timeline["spans"]
    if len(rows) > most:
        raise ValueError(f"a timeline holds at most {most:,} spans")
    return [_span(row, texts) for row in rows]


def _span(row: Any, texts: list[Any]) -> dict[str, Any]:
    if not isinstance(row, list) or len(row) != len(COLUMNS):
        raise ValueError(f"a span of a timeline must have {len(COLUMNS)} values")
    span = dict(zip(COLUMNS, row, strict=True))
    for key in _TEXTS:
        place = span[key]
        if not isinstance(place, int) or not 0 <= place < len(texts):
            raise ValueError(f"a span of a timeline must name one of its {len(texts):,} texts")
        span[key] = texts[place]
    return span


Part = Literal["compute", "d2h", "d2d", "h2d", "input", "launch", "other"]
PARTS: tuple[Part, ...] = get_args(Part)
"""In order of priority: the device's own work, then what the device waits for, then unexplained time."""

TRUSTED_RATIO = 1.3
"""Above this ratio of profiled to unprofiled step time, the profiler itself is a large part of what it shows."""
SUM_TOLERANCE = 1e-6
MAX_SPANS = 4_000
MAX_STEPS = 10_000
"""A trace usually has a handful of steps, which is enough."""
MAX_KERNELS = 20
MAX_HOST_OPS = 1_000
MAX_NOTES, MAX_NOTE_CHARS = 32, 1_000
Ms = Annotated[float, Field(ge=0)]


class StepParts(Frozen):
    """One step of one device. On a CPU target ``launch_ms`` is the framework's work between operations."""

    step_ms: Annotated[float, Field(gt=0)]
    compute_ms: Ms = 0.0
    h2d_ms: Ms = 0.0
    d2h_ms: Ms = 0.0
    d2d_ms: Ms = 0.0
    input_ms: Ms = 0.0
    launch_ms: Ms = 0.0
    other_ms: Ms = 0.0

    @model_validator(mode="after")
    def _sum_to_the_step(self) -> StepParts:
        total = sum(self.part_ms(part) for part in PARTS)
        if abs(total - self.step_ms) > SUM_TOLERANCE * max(1.0, self.step_ms):
            raise ValueError(f"the parts sum to {total} ms, not to the step's {self.step_ms} ms")
        return self

    def part_ms(self, part: Part) -> float:
        return float(getattr(self, f"{part}_ms"))

    @property
    def overhead_share(self) -> float:
        """1 − compute / step."""
        return 1.0 - self.compute_ms / self.step_ms


class Kernel(Frozen):
    """All events of one name (a kernel on a GPU, an operation on a CPU) within the traced steps."""

    name: str
    count: Annotated[int, Field(ge=1)]
    total_ms: Ms


class HostOp(Frozen):
    """An operation of the step that ran on the host although the target is a GPU.

    ``expected`` is True if it belongs there (``why``: input, summary, string, control); otherwise it fell back.
    ``moved_bytes``: data that crossed between host and device for it, None if the trace does not show them.
    """

    name: str
    op_type: str
    count: Annotated[int, Field(ge=1)]
    total_ms: Ms
    expected: bool
    why: str = ""
    moved_bytes: int | None = None


class Span(Frozen):
    """One event of the step drawn as a timeline.

    ``lane`` names the stream or thread, ``start_ms`` counts from the step's begin (negative if the event began
    earlier).
    """

    lane: str
    name: str
    part: Part
    start_ms: float
    length_ms: Ms


class DeviceTrace(Frozen):
    """One device's steps in a trace.

    ``kernels`` counts kernels (GPU) or operations (CPU) within the steps; ``busy_ms`` is the union of their intervals,
    ``span_ms`` runs from the first step's begin to the last one's end. ``steps_from`` is the source of the steps'
    bounds: ``steps line`` (the trace's own), ``host steps`` (the first device event launched in each annotated host
    step) or ``whole trace`` (nothing marks steps). ``h2d_bytes`` and ``d2h_bytes`` were carried to and from a GPU by
    copies that began within the steps; None on the CPU, where a copy does not report its size, and in traces stored
    before they were counted. ``all_reduces_ms`` is the time of the gradient exchange among several devices in each step
    (:mod:`core.traces.report`): on a GPU a part of compute, to which its kernels belong. Empty if there is none, or
    the trace does not show it.
    """

    device: str
    steps: Annotated[tuple[StepParts, ...], Field(min_length=1, max_length=MAX_STEPS)]
    kernels: Annotated[int, Field(ge=0)]
    busy_ms: Ms
    span_ms: Ms
    steps_from: Literal["steps line", "host steps", "whole trace"]
    top: Annotated[tuple[Kernel, ...], Field(max_length=MAX_KERNELS)] = ()
    timeline: Annotated[tuple[Span, ...], Field(max_length=MAX_SPANS)] = ()
    h2d_bytes: Annotated[int, Field(ge=0)] | None = None
    d2h_bytes: Annotated[int, Field(ge=0)] | None = None
    all_reduces_ms: Annotated[tuple[Ms, ...], Field(max_length=MAX_STEPS)] = ()

    @field_validator("timeline", mode="before")
    @classmethod
    def _unpacked(cls, timeline: Any) -> Any:
        return unpacked(timeline, MAX_SPANS)

    @field_serializer("timeline", mode="wrap")
    def _packed(self, spans: tuple[Span, ...], write: SerializerFunctionWrapHandler) -> dict[str, list[Any]]:
        return packed(write(spans))

    @property
    def all_reduce_ms(self) -> float | None:
        """Time of the exchange in the mean step; None if unknown."""
        return sum(self.all_reduces_ms) / len(self.all_reduces_ms) if self.all_reduces_ms else None

    @property
    def all_reduce_shares(self) -> tuple[float, ...]:
        """Share of the exchange in each step; empty if unknown."""
        return tuple(ms / step.step_ms for ms, step in zip(self.all_reduces_ms, self.steps, strict=False))

    def mean(self) -> StepParts:
        """Return the mean step, part by part."""
        n = len(self.steps)
        values = {f"{part}_ms": sum(step.part_ms(part) for step in self.steps) / n for part in PARTS}
        return StepParts(step_ms=sum(values.values()), **values)


STEPS_FROM = {
    "steps line": "marked in the trace",
    "host steps": "from the steps annotated on the host",
    "whole trace": "the whole trace as one step",
}
"""By :attr:`DeviceTrace.steps_from`, in words."""


class TraceReport(Frozen):
    """A whole trace: its devices, and operations of the steps that ran on the host beside a GPU.

    ``retraces`` counts how often a ``tf.function`` was traced again inside the steps, ``dropped_events`` the events
    that the profiler reports as lost; ``notes`` are sentences.
    """

    devices: tuple[DeviceTrace, ...]
    host_ops: Annotated[tuple[HostOp, ...], Field(max_length=MAX_HOST_OPS)] = ()
    retraces: Annotated[int, Field(ge=0)] = 0
    dropped_events: Annotated[int, Field(ge=0)] = 0
    notes: tuple[str, ...] = ()


Note = Annotated[str, Field(max_length=MAX_NOTE_CHARS)]


class CellTrace(Frozen):
    """The trace of one cell, beside the same steps without the profiler.

    ``dropped_events`` is the number of events the profiler lost, ``notes`` are sentences on other limits of the trace;
    None and empty in traces stored before they were recorded.
    """

    batch: Annotated[int, Field(ge=1)]
    device: DeviceTrace
    host_ops: Annotated[tuple[HostOp, ...], Field(max_length=MAX_HOST_OPS)] = ()
    retraces: Annotated[int, Field(ge=0)] = 0
    profiled_step_ms: Annotated[float, Field(gt=0)]
    unprofiled_step_ms: Annotated[float, Field(gt=0)]
    dropped_events: Annotated[int, Field(ge=0)] | None = None
    notes: Annotated[tuple[Note, ...], Field(max_length=MAX_NOTES)] = ()

    @property
    def place(self) -> str:
        """Its place in a sentence."""
        return f"at batch {self.batch:,}"

    @property
    def profiler_ratio(self) -> float:
        """Profiled over unprofiled step time."""
        return self.profiled_step_ms / self.unprofiled_step_ms

    @property
    def trusted(self) -> bool:
        """True if the parts hold for the step: the profiler neither slowed it much nor lost events."""
        return self.profiler_ratio <= TRUSTED_RATIO and not self.dropped_events


class TracedCell(CellTrace):
    """The trace of one cell of a run, on the run's target of that index."""

    target: TargetIndex


class FileTrace(Frozen):
    """One device of a trace file, shown like a traced cell of a run with that device as its only target.

    Nothing tells the batch of its steps, or how much the profiler slowed them.
    """

    device: DeviceTrace
    host_ops: tuple[HostOp, ...] = ()
    retraces: int = 0
    dropped_events: int = 0
    notes: tuple[str, ...] = ()
    target: Literal[0] = 0
    place: Literal["in this file"] = "in this file"

    @classmethod
    def of(cls, report: TraceReport, device: int) -> FileTrace:
        """Return the device of that index; operations on the host belong to all of them."""
        return cls(
            device=report.devices[device],
            host_ops=report.host_ops,
            retraces=report.retraces,
            dropped_events=report.dropped_events,
            notes=report.notes,
        )

    @property
    def trusted(self) -> bool:
        """True if the profiler reports no lost events."""
        return not self.dropped_events


AnyTrace = TracedCell | FileTrace
