"""The reader: the content that it keeps, and the files that it refuses."""

import gzip
import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.traces import columns, wire, xplane
from core.traces.events import NONE, Events, Trace, TraceError
from core.traces.report import report
from core.traces.xplane import MESSAGES, message, read
from simulated.traces import MadeTrace, gpu_trace

ROOT = Path(__file__).parents[3]


def events_of(trace: Trace, name: str) -> Events:
    (line,) = (line for line in trace.lines if line.name == name)
    return line.events


def refusal(folder: Path, data: bytes) -> str:
    path = folder / "given.xplane.pb"
    path.write_bytes(data)
    with pytest.raises(TraceError) as error:
        read(path)
    return str(error.value)


SCHEMA_CHECK = """
import sys
from tensorflow.tsl.profiler.protobuf import xplane_pb2
from core.traces.xplane import MESSAGES, message

for name, fields in MESSAGES.items():
    outer, _, inner = name.partition(".")
    theirs, ours = xplane_pb2.DESCRIPTOR.message_types_by_name[outer], message(outer).DESCRIPTOR
    if inner:
        theirs, ours = theirs.nested_types_by_name[inner], ours.nested_types_by_name[inner]
        assert theirs.GetOptions().map_entry, name
    assert len(ours.fields) == len(fields), name
    for field in ours.fields:
        other = theirs.fields_by_number[field.number]
        assert (other.name, other.is_repeated) == (field.name, field.is_repeated), (name, field.name)
        as_bytes = (other.type, field.type) == (other.TYPE_STRING, field.TYPE_BYTES)
        assert other.type == field.type or as_bytes, (name, field.name)
space = xplane_pb2.XSpace.FromString(open(sys.argv[1], "rb").read())
again = space.SerializeToString(deterministic=True)
assert message("XSpace").FromString(again).SerializeToString(deterministic=True) == again
print("same")
"""


@pytest.mark.tensorflow
def test_the_schema_is_that_of_tensorflow(tmp_path: Path) -> None:
    """Compare numbers and types with the installed TensorFlow's, except strings as bytes, both loaded in one
    process.
    """
    command = [sys.executable, "-c", SCHEMA_CHECK, str(gpu_trace().write(tmp_path))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr[-2000:]


def test_reading_loads_no_framework_and_the_schema_names_every_message_of_the_format() -> None:
    code = "import sys, core.traces.xplane, core.traces.report; print([m for m in sys.modules if 'tensorflow' in m])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {name.split(".")[0] for name in MESSAGES} == {
        "XSpace", "XPlane", "XLine", "XEvent", "XStat", "XEventMetadata", "XStatMetadata"
    }  # fmt: skip


def test_times_count_from_the_first_lines_timestamp_exactly(tmp_path: Path) -> None:
    made = MadeTrace()
    plane = made.plane("/host:CPU")
    now_ns = 1_790_000_000_123_456_789  # since 1970, in picoseconds this does not fit in 64 bits
    early, late = plane.line("early", timestamp_ns=now_ns), plane.line("late", timestamp_ns=now_ns + 7)
    for line, offset in ((early, 5), (late, 11)):
        event = line._line.events.add(metadata_id=plane.name_id("op"), offset_ps=offset, duration_ps=3)
        assert event.offset_ps == offset
    trace = read(made.write(tmp_path))
    assert events_of(trace, "early").spans.tolist() == [[5, 8]]
    assert events_of(trace, "late").spans.tolist() == [[7_000 + 11, 7_000 + 14]]


def test_values_of_events_are_kept(tmp_path: Path) -> None:
    made = MadeTrace()
    stream = made.plane("/device:GPU:0").line("Stream #1(MemcpyH2D)")
    stream.event(
        "MemcpyH2D", 1, 1, correlation_id=9, memcpy_details="kind_src:host size:96 dest:0", from_="a/b", to="c"
    )
    thread = made.plane("/host:CPU").line("python")
    thread.event("train", 0, 9, step_num=4)
    thread.event("f", 2, 1, tf_function_call="traced-nonXla")
    thread.event("dot.1", 3, 1, hlo_op="dot.1", _p=2**64 - 5)
    thread.event("end: dot.1", 5, 1, _c=2**64 - 5)
    thread.event("g", 7, 1, _p=12)
    trace = read(made.write(tmp_path))
    copy, host = events_of(trace, "Stream #1(MemcpyH2D)"), events_of(trace, "python")
    assert (copy.link.tolist(), copy.size_bytes.tolist(), copy.step.tolist()) == ([9], [96], [NONE])
    assert [trace.texts[i] for i in (copy.source[0], copy.sink[0])] == ["a/b", "c"]
    assert host.step.tolist() == [4, NONE, NONE, NONE, NONE]
    assert host.link.tolist() == [NONE, NONE, -5, -5, NONE]
    assert host.computes.tolist() == [False, False, True, False, False]
    assert [trace.texts[i] for i in host.call] == ["", "traced-nonXla", "", "", ""]


def test_planes_lines_and_events_of_no_use_are_left_out(tmp_path: Path) -> None:
    made = MadeTrace()
    host = made.plane("/host:CPU")
    host.line("python").event("$train.py:1 main", 0, 9).event("op", 1, 2).event("ThreadpoolListener::Record", 3, 0)
    made.plane("/host:python-tracer").line("python").event("op", 0, 1)
    made.plane("/device:GPU:0").line("TensorFlow Ops").event("op", 0, 1)
    made.plane("Task Environment").line("x").event("op", 0, 1)
    trace = read(made.write(tmp_path))
    assert [(line.plane, line.name, len(line.events)) for line in trace.lines] == [("/host:CPU", "python", 1)]


def test_a_threads_driver_calls_stand_beside_its_other_events(tmp_path: Path) -> None:
    trace = read(gpu_trace().write(tmp_path))
    (host,) = (line for line in trace.lines if line.plane == "/host:CPU")
    names = [trace.texts[name] for name in host.events.name.tolist()]
    assert host.name == "python"
    assert {"train", "cuLaunchKernel", "cuStreamSynchronize"} <= set(names)
    assert (host.events.start_ps[1:] >= host.events.start_ps[:-1]).all()


def test_a_line_read_in_many_pieces_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gpu_trace().write(tmp_path)
    whole = read(path)
    monkeypatch.setattr(xplane, "CHUNK_BYTES", 40)
    pieces = read(path)
    for one, other in zip(whole.lines, pieces.lines, strict=True):
        assert one.events.spans.tolist() == other.events.spans.tolist()
        assert one.events.link.tolist() == other.events.link.tolist()
        names = [
            [trace.texts[i] for i in events.name] for trace, events in ((whole, one.events), (pieces, other.events))
        ]
        assert names[0] == names[1]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b'{"displayTimeUnit": "ns", "traceEvents": []}', "it is JSON"),
        (b"\n  [1, 2]", "it is JSON"),
        (b"<!DOCTYPE html><html></html>", "it is HTML or XML"),
        (b"\x08\x01\x12\x05hello", "such as a SavedModel"),
        (b"PK\x03\x04rest", "a ZIP archive"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"MZ\x90\x00", "is no trace"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path: Path, data: bytes, words: str) -> None:
    said = refusal(tmp_path, data)
    assert words in said
    assert "TensorFlow's profiler" in said
    assert said.count("\n") == 0


def test_a_missing_or_compressed_or_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read(tmp_path / "none.xplane.pb")
    assert "(gunzip)" in refusal(tmp_path, gzip.compress(gpu_trace().data()))
    made = MadeTrace()
    made.plane("/host:metadata").line("x").event("op", 0, 1)
    assert "holds no events" in refusal(tmp_path, made.data())


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """Truncate also at the end of a plane, which leaves a valid message: a trace names its machine last."""
    data = gpu_trace().data()
    places = random.Random(7).sample(range(1, len(data)), 150)
    boundary = 0
    for plane in message("XSpace").FromString(data).planes:
        boundary += len(message("XSpace")(planes=[plane]).SerializeToString())
        places.append(boundary)
    for place in places:
        assert "cut short" in refusal(tmp_path, data[:place]), place


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (1, -1), (2**61, 1), (1, 2**61)])
def test_impossible_times_are_refused(tmp_path: Path, offset: int, length: int) -> None:
    made = MadeTrace()
    plane = made.plane("/host:CPU")
    plane.line("python")._line.events.add(metadata_id=plane.name_id("op"), offset_ps=offset, duration_ps=length)
    assert "cannot be" in refusal(tmp_path, made.data())


@pytest.mark.parametrize(
    ("owner", "limit", "value", "words"),
    [
        (xplane, "MAX_FILE_BYTES", 100, "trace fewer steps"),
        (xplane, "MAX_EVENTS", 5, "more than 5 events"),
        (xplane, "MAX_VALUES", 5, "more than 5 values of events"),
        (xplane, "MAX_LINES", 4, "more than 4 threads and streams"),
        (xplane, "MAX_GPUS", 0, "more than 0 GPUs"),
        (xplane, "MAX_METADATA_BYTES", 50, "names more operations"),
        (columns, "MAX_TEXTS_BYTES", 300, "more text"),
        (columns, "MAX_TEXTS", 5, "more text"),
        (wire, "MAX_FIELDS", 40, "in more pieces"),
    ],
)
def test_a_trace_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, limit: str, value: int, words: str
) -> None:
    monkeypatch.setattr(owner, limit, value)
    assert words in refusal(tmp_path, gpu_trace().data())


def test_one_event_larger_than_what_is_parsed_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xplane, "CHUNK_BYTES", 10)
    monkeypatch.setattr(xplane, "MAX_EVENT_BYTES", 12)
    assert "than 12 bytes" in refusal(tmp_path, gpu_trace().data())


def read_or_refuse(path: Path, data: bytes) -> None:
    """Check that a TraceError with a sentence is the only way to fail."""
    path.write_bytes(data)
    said = "."
    try:
        report(read(path))
    except TraceError as error:
        said = str(error)
    assert said.endswith(".")
    assert "\n" not in said


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_bytes_and_a_damaged_trace_are_refused_or_read(
    tmp_path: Path, some: bytes, damage: list[tuple[int, int]]
) -> None:
    read_or_refuse(tmp_path / "any.xplane.pb", some)
    data = bytearray(gpu_trace().data())
    for place, value in damage:
        data[place % len(data)] = value
    read_or_refuse(tmp_path / "damaged.xplane.pb", bytes(data))


stat_names = st.sampled_from(["correlation_id", "step_num", "hlo_op", "_p", "_c", "memcpy_details", "tf_function_call"])
device_names = ["gemm", "MemcpyH2D", "Memset"]
step_names = ["train", "a/B:B", "x:Identity", "IteratorGetNextOp::DoCompute", "cuStreamSynchronize"]
cpu_names = ["EagerLocalExecute: Mul", "KernelAndDeviceFunc::Run", "ThunkExecutor::Execute", "end: gemm"]
names = st.sampled_from([*device_names, *step_names, *cpu_names])
values = st.one_of(st.integers(-5, 5), st.sampled_from(["size:8", "traced-xla", ""]))
made_events = st.tuples(names, st.integers(0, 50), st.integers(0, 20), st.dictionaries(stat_names, values, max_size=3))
made_lines = st.tuples(
    st.sampled_from(["/host:CPU", "/device:GPU:0", "/device:GPU:1"]),
    st.sampled_from(["python", "Stream #1", "Stream #2(MemcpyH2D)", "Steps", "tf_data_iterator_resource/1"]),
    st.lists(made_events, max_size=8),
)


@given(st.lists(made_lines, min_size=1, max_size=6))
def test_any_events_make_a_report_or_a_refusal(tmp_path: Path, lines: list[tuple[str, str, list]]) -> None:
    """Try also events that no profiler writes: each step's parts sum to it (checked by the type), nothing raises."""
    made = MadeTrace()
    for plane, group in itertools.groupby(sorted(lines, key=lambda line: line[0]), key=lambda line: line[0]):
        made_plane = made.plane(plane)
        for _, name, events in group:
            line = made_plane.line(name)
            for text, start, length, stats in events:
                line.event(text, start, length, **stats)
    read_or_refuse(tmp_path / "made.xplane.pb", made.data())
