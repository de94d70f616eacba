"""Reduction of a trace until it fits into a number of bytes; notes report it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic_core import to_json

from core.traces.record import MAX_NOTE_CHARS, MAX_NOTES, DeviceTrace, HostOp, Span

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
    found = whole
    for found in _smaller(whole):
        if found.size() <= most_bytes:
            break
    return found


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
        kept, said = longest(spans, most_spans), list(notes)
        if most_spans < len(spans):
            said.append(
                f"Of {len(spans):,} events of the timeline the {most_spans:,} longest are kept, for their size."
            )
        if most_ops < len(ops):
            said.append(
                f"Of {len(ops):,} operations on the host the {most_ops:,} that cost most are kept, for their size."
            )
        yield Cut(device.model_copy(update={"timeline": kept}), ops[:most_ops], tuple(said))
        if not most_spans and not most_ops:
            return
        most_spans, most_ops = most_spans // 2, most_ops // 2


def longest(spans: tuple[Span, ...], most: int) -> tuple[Span, ...]:
    """Return the longest spans, in the order of a timeline."""
    if len(spans) <= most:
        return spans
    kept = sorted(spans, key=lambda span: -span.length_ms)[:most]
    return tuple(sorted(kept, key=lambda span: (span.lane, span.start_ms)))
