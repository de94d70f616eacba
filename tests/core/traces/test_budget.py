"""Every text of a timeline is stored once, and no reply with a trace is longer than a line of the protocol."""

import json
import random
from typing import Any

import pytest
from pydantic import ValidationError

from core.base.schema import explain
from core.traces.record import MAX_SPANS, PARTS, DeviceTrace, HostOp, Kernel, Span, TraceReport
from core.traces.report import report
from core.traces.xplane import read
from core.worker.profiling import SHORT_CHARS, SPANS, TRACE_BYTES, reply_fields, shortened
from core.worker.protocol import MAX_LINE_BYTES, MAX_TRACED_STEPS, CellFailed, Traced
from simulated.traces import BERT, needs_bert
from tests.support.traced import GPU_SHARES, gpu_cell, step_parts

LONG = 4_000


def reply_to(trace: TraceReport, steps: int = MAX_TRACED_STEPS) -> tuple[Traced, int]:
    """Return the reply, as the supervisor reads it, and its length in bytes."""
    fields = reply_fields(trace, steps, 1)
    line = Traced(batch=8, profiled_step_ms=2.0, unprofiled_step_ms=1.0, **fields).model_dump_json().encode()
    assert len(line) <= TRACE_BYTES + 1_000 < MAX_LINE_BYTES
    return Traced.model_validate_json(line), len(line)


def made(names: list[str], steps: int = 4, host_ops: int = 0, lanes: int = 3, step_ms: float = 7.3) -> TraceReport:
    """Return a trace of one GPU whose events have these names, the longest events first."""
    spans = tuple(
        Span(lane=f"Stream #{i % lanes}", name=name, part=PARTS[i % 7], start_ms=i / 7, length_ms=3 - i / 3_000)
        for i, name in enumerate(names)
    )
    device = DeviceTrace(
        device="GPU:0", steps=(step_parts(step_ms, GPU_SHARES),) * steps, kernels=len(names), busy_ms=1,
        span_ms=step_ms, steps_from="host steps",
        timeline=tuple(sorted(spans, key=lambda span: (span.lane, span.start_ms))),
        top=tuple(Kernel(name=name, count=1, total_ms=1) for name in names[:20]),
    )  # fmt: skip
    ops = (HostOp(name=name, op_type=name, count=1, total_ms=1 / 3, expected=False) for name in names[:host_ops])
    return TraceReport(devices=(device,), host_ops=tuple(ops))


@needs_bert
def test_the_trace_of_a_large_network_fits_into_a_line_whole() -> None:
    """Check a reply that took 1,077,910 bytes in full; names of 919 characters recur 2.5 times each."""
    whole = report(read(BERT))
    for device in whole.devices:
        found, size = reply_to(whole.model_copy(update={"devices": (device,)}))
        assert size < 0.3 * MAX_LINE_BYTES
        assert len(device.model_dump_json()) < 0.2 * len(json.dumps(old_form(device)))
        assert len(found.device.timeline) == SPANS
        assert set(found.device.timeline) <= set(device.timeline)
        assert found.device.top == device.top
        assert found.host_ops == whole.host_ops
        assert [note for note in found.notes if f"the {SPANS:,} longest" in note]


def test_a_name_that_comes_back_costs_a_number() -> None:
    names = [f"layer {i % 40} {'x' * LONG}" for i in range(SPANS)]
    found, size = reply_to(made(names, host_ops=10))
    assert {span.name for span in found.device.timeline} == set(names)
    assert found.notes == ()
    assert size < 40 * LONG + 10 * 2 * LONG + 20 * LONG + 100 * SPANS


def test_names_too_long_in_all_are_shortened_and_that_is_said() -> None:
    names = [f"void kernel{i}<{'x' * LONG}>(int{i})" for i in range(SPANS)]
    found, size = reply_to(made(names))
    assert size < MAX_LINE_BYTES
    assert {span.name for span in found.device.timeline} == {shortened(name) for name in names}
    assert [kernel.name for kernel in found.device.top] == names[:20]
    (note,) = found.notes
    assert f"than {SHORT_CHARS} characters" in note


@pytest.mark.parametrize("character", ["x", "\x01", "\\", "é", "😀"])
def test_no_reply_is_longer_than_a_line(character: str) -> None:
    """Give everything a name of 4,000 characters, of one to six bytes each."""
    names = [f"{i}{character * LONG}"[:LONG] for i in range(SPANS + 100)]
    found, size = reply_to(made(names, steps=MAX_TRACED_STEPS, host_ops=1_000))
    assert 0.4 * MAX_LINE_BYTES < size < MAX_LINE_BYTES, "it fits, and no more is cut than twice too much"
    device = found.device
    assert len(device.steps) == MAX_TRACED_STEPS
    assert [kernel.name for kernel in device.top] == names[:20]
    lengths = sorted((span.length_ms for span in device.timeline), reverse=True)
    assert lengths == [3 - i / 3_000 for i in range(len(lengths))], "the longest"
    assert [op.name for op in found.host_ops] == [shortened(name) for name in names[: len(found.host_ops)]]
    said = " ".join(found.notes)
    assert f"the {len(lengths):,} longest are kept" in said or f"the {SPANS:,} longest" in said
    assert f"host the {len(found.host_ops):,} that" in said


@pytest.mark.parametrize("seed", range(12))
def test_no_reply_of_any_mixture_of_names_is_longer_than_a_line(seed: int) -> None:
    chance = random.Random(seed)
    lengths = [chance.choice((1, 30, 600, LONG)) for _ in range(chance.randrange(1, 2_000))]
    names = [
        "".join(chr(chance.choice((1, 34, 97, 233, 0x4E2D, 0x1F600))) for _ in range(3)) * (n // 3 + 1) for n in lengths
    ]
    trace = made(
        [name[:LONG] for name in names], chance.randrange(1, 200), chance.randrange(1_000), chance.randrange(1, 900)
    )
    found, size = reply_to(trace)
    assert size < MAX_LINE_BYTES
    kept, given = found.device.timeline, trace.devices[0].timeline
    cut = len(kept) < len(given) or found.host_ops != trace.host_ops or set(kept) - set(given)
    assert bool(cut) == bool(found.notes)


def test_more_steps_than_were_run_are_refused() -> None:
    with pytest.raises(CellFailed, match="shows 5 steps"):
        reply_fields(made(["a"], steps=5), 4, 1)


def old_form(device: DeviceTrace) -> dict[str, Any]:
    """Return the earlier storage format: every span with its own texts."""
    return {**json.loads(device.model_dump_json()), "timeline": [span.model_dump() for span in device.timeline]}


def test_a_trace_stored_before_opens_and_is_the_same() -> None:
    device = made([f"kernel {i % 5}" for i in range(100)]).devices[0]
    assert DeviceTrace.model_validate_json(json.dumps(old_form(device))) == device
    assert DeviceTrace.model_validate(device.model_dump()) == device
    cell = gpu_cell()
    stored = json.loads(cell.model_dump_json())
    for new in ("dropped_events", "notes"):
        del stored[new]
    stored["device"] = {k: v for k, v in old_form(cell.device).items() if k not in ("h2d_bytes", "d2h_bytes")}
    assert type(cell).model_validate(stored) == cell
    assert cell.trusted


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        ({"texts": ["a"]}, "must hold a list of texts and a list of spans"),
        ({"texts": "a", "spans": []}, "must hold a list of texts and a list of spans"),
        ({"texts": ["a"], "spans": [[0, 0, "h2d", 0]]}, "must have 5 values"),
        ({"texts": ["a"], "spans": ["0,0,h2d"]}, "must have 5 values"),
        ({"texts": ["a"], "spans": [[0, 1, "h2d", 0, 1]]}, "must name one of its 1 texts"),
        ({"texts": ["a"], "spans": [[-1, 0, "h2d", 0, 1]]}, "must name one of its 1 texts"),
        ({"texts": ["a"], "spans": [[0, "a", "h2d", 0, 1]]}, "must name one of its 1 texts"),
        ({"texts": [1], "spans": [[0, 0, "h2d", 0, 1]]}, "valid string"),
        ({"texts": ["a"], "spans": [[0, 0, "no part", 0, 1]]}, "part"),
        ({"texts": ["a"], "spans": [[0, 0, "h2d", 0, 1]] * (MAX_SPANS + 1)}, "at most 4,000 spans"),
    ],
)
def test_a_damaged_timeline_is_refused_with_a_sentence(timeline: Any, words: str) -> None:
    stored = {**json.loads(made(["a"]).devices[0].model_dump_json()), "timeline": timeline}
    with pytest.raises(ValidationError) as refused:
        DeviceTrace.model_validate(stored)
    assert words in explain(refused.value)


def test_shortening_keeps_both_ends_and_is_the_same_everywhere() -> None:
    name = "void f<" + "a" * 500 + ">(b)"
    assert shortened(name) == shortened(name)
    assert len(shortened(name)) == SHORT_CHARS
    assert shortened(name).startswith(name[:300])
    assert shortened(name).endswith(name[-99:])
    assert shortened(name[:SHORT_CHARS]) == name[:SHORT_CHARS]
