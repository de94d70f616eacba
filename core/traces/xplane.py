"""Reader of ``*.xplane.pb``, the file of TensorFlow's profiler, in bounded memory and without TensorFlow.

The file is mapped and walked by hand from the space to its planes and lines. Concatenated fields of a message are again
a message: a line with millions of events is parsed some megabytes at a time, and only the columns of
:class:`~core.traces.events.Events` are kept. Planes, lines and events that no analysis uses are left out: Python
function calls (named ``$...``), memory and thread pool markers, and the lines that repeat a GPU's work by name.

Numbers and types of the messages are those of ``tsl/profiler/protobuf/xplane.proto``. Strings are declared as bytes,
which look the same in the file: a name that is not UTF-8 then spoils one name and not the whole trace. Unused fields
are left out; the parser skips unknown ones. The messages live in a descriptor pool of their own, beside which
TensorFlow's may be loaded in the same process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from core.base.files import size_of
from core.base.numbers import byte_size
from core.base.schema import UserError
from core.traces.columns import Columns, Metadata, Texts
from core.traces.events import Line, Trace, TraceError, joined
from core.traces.wire import BROKEN, BYTES, MAX_MESSAGE_CHARS, MAX_MESSAGES, Field, MappedFile, Stretches, messages

_PACKAGE = "tensorflow.profiler"
_Field = tuple[str, int, str]
MESSAGES: dict[str, tuple[_Field, ...]] = {
    "XSpace": (
        ("planes", 1, "XPlane*"),
        ("errors", 2, "bytes*"),
        ("warnings", 3, "bytes*"),
        ("hostnames", 4, "bytes*"),
    ),
    "XPlane": (
        ("name", 2, "bytes"),
        ("lines", 3, "XLine*"),
        ("event_metadata", 4, "XPlane.EventMetadataEntry*"),
        ("stat_metadata", 5, "XPlane.StatMetadataEntry*"),
    ),
    "XPlane.EventMetadataEntry": (("key", 1, "int64"), ("value", 2, "XEventMetadata")),
    "XPlane.StatMetadataEntry": (("key", 1, "int64"), ("value", 2, "XStatMetadata")),
    "XLine": (
        ("id", 1, "int64"),
        ("name", 2, "bytes"),
        ("timestamp_ns", 3, "int64"),
        ("events", 4, "XEvent*"),
        ("display_name", 11, "bytes"),
    ),
    "XEvent": (
        ("metadata_id", 1, "int64"),
        ("offset_ps", 2, "int64"),
        ("duration_ps", 3, "int64"),
        ("stats", 4, "XStat*"),
        ("num_occurrences", 5, "int64"),
    ),
    "XStat": (
        ("metadata_id", 1, "int64"),
        ("uint64_value", 3, "uint64"),
        ("int64_value", 4, "int64"),
        ("str_value", 5, "bytes"),
        ("ref_value", 7, "uint64"),
    ),
    "XEventMetadata": (("id", 1, "int64"), ("name", 2, "bytes")),
    "XStatMetadata": (("id", 1, "int64"), ("name", 2, "bytes")),
}
_PROTO = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"int64": _PROTO.TYPE_INT64, "uint64": _PROTO.TYPE_UINT64, "bytes": _PROTO.TYPE_BYTES}


def _declare() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package=_PACKAGE, syntax="proto3")
    declared: dict[str, Any] = {}
    for name, fields in MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        message = declared[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=inner)
        message.options.map_entry = bool(outer)
        declared[name] = message
        for field_name, number, kind in fields:
            _declare_field(message.field.add(name=field_name, number=number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _declare_field(field: Any, kind: str) -> None:
    base = kind.rstrip("*")
    field.label = _PROTO.LABEL_REPEATED if kind.endswith("*") else _PROTO.LABEL_OPTIONAL
    if base in _SCALARS:
        field.type = _SCALARS[base]
    else:
        field.type, field.type_name = _PROTO.TYPE_MESSAGE, f".{_PACKAGE}.{base}"


_POOL = _declare()


def message(name: str) -> Any:
    """Return the class of a message, such as ``XLine``."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


MAX_FILE_BYTES = 1024**3
MAX_EVENTS, MAX_VALUES = 1_500_000, 10_000_000
"""Reading and analysis take some 4 µs and 160 bytes per event, 0.2 µs per value (benchmarks/trace_reader.py)."""
MAX_EVENT_BYTES = 2 * 1024**2
MAX_LINES = 2_000
MAX_GPUS = 16
MAX_METADATA_BYTES = 128 * 1024**2
CHUNK_BYTES = 2 * 1024**2
ACCEPTED = "accepted is a trace of TensorFlow's profiler, a file *.xplane.pb"
SKIPPED_PLANES = ("/host:metadata", "/host:python-tracer")
_XPlane, _XLine = message("XPlane"), message("XLine")
_PLANES, _ERRORS, _WARNINGS, _HOSTS = 1, 2, 3, 4
_NAME, _LINES, _EVENTS = 2, 3, 4
_TEXT_SIGNS = (b"{", b"[", b"<")
_SIGNS = {
    b"\x1f\x8b": "compressed; unpack it first (gunzip)",
    b"PK\x03\x04": "a ZIP archive",
    b"\x89HDF": "an HDF5 file",
    b"{": "JSON",
    b"[": "JSON",
    b"<": "HTML or XML",
    b"\x08": "another kind of protocol buffer, such as a SavedModel",
}


def read(path: Path) -> Trace:
    """Return the trace in a file. Raises TraceError if it cannot be used."""
    try:
        size = size_of(path)
        if not size:
            raise TraceError(f"{path.name} is empty; {ACCEPTED}.")
        if size > MAX_FILE_BYTES:
            limit = byte_size(MAX_FILE_BYTES)
            raise TraceError(f"{path.name} is larger than {limit}; trace fewer steps (a handful is enough).")
        with closing(MappedFile(path)) as file:
            _check_kind(file, path.name)
            return _read_space(file)
    except DecodeError:
        raise TraceError(BROKEN) from None
    except TraceError:
        raise
    except UserError as error:
        raise TraceError(str(error)) from None


def _check_kind(file: MappedFile, name: str) -> None:
    begin = file.cut(0, 4096)
    for sign, kind in _SIGNS.items():
        if (begin.lstrip() if sign in _TEXT_SIGNS else begin).startswith(sign):
            raise TraceError(f"{name} is no trace: it is {kind}; {ACCEPTED}.")
    if begin[0] not in (number << 3 | BYTES for number in range(1, 5)):
        raise TraceError(f"{name} is no trace; {ACCEPTED}.")


def _read_space(file: MappedFile) -> Trace:
    planes: list[Field] = []
    texts: dict[int, list[bytes]] = {_ERRORS: [], _WARNINGS: [], _HOSTS: []}
    for field in file.fields(0, file.size):
        if field.wire == BYTES and field.number == _PLANES:
            planes.append(field)
        elif field.wire == BYTES and field.number in texts and len(texts[field.number]) < 2 * MAX_MESSAGES:
            texts[field.number].append(file.cut(field.content, min(field.end, field.content + 4 * MAX_MESSAGE_CHARS)))
    if not texts[_HOSTS]:  # every trace ends with the machine's name: without it the last planes may be missing
        raise TraceError(f"{BROKEN[:-1]} (it does not name the machine, which a trace does at its end).")
    reader = _Reader(file)
    lines = [line for plane in planes for line in reader.plane(plane)]
    _check(len({line.plane for line in lines if not line.plane.startswith("/host:")}), MAX_GPUS, "GPUs")
    if not any(len(line.events) for line in lines):
        raise TraceError("The trace holds no events of the host or of a GPU; record it while steps run.")
    errors, warnings = (messages(texts[number], texts[_HOSTS]) for number in (_ERRORS, _WARNINGS))
    return Trace(tuple(_one_line_a_thread(lines)), reader.texts.all(), errors, warnings)


def _one_line_a_thread(lines: list[Line]) -> Iterator[Line]:
    """Merge each thread's lines: its driver calls may be on another plane (/host:CUPTI) than its other events."""
    threads: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line.plane.startswith("/host:"):
            threads[line.thread].append(line)
        else:
            yield line
    for same in threads.values():
        named = next((line for line in same if line.plane == "/host:CPU"), same[0])
        yield Line("/host:CPU", named.name, named.thread, joined(line.events for line in same))


class _Reader:
    def __init__(self, file: MappedFile) -> None:
        self._file = file
        self._events = self._values = self._lines = 0
        self._origin_ns: int | None = None
        self.texts = Texts()

    def plane(self, field: Field) -> Iterator[Line]:
        """Yield the usable lines of a plane."""
        others, lines, name = Stretches(CHUNK_BYTES), [], ""
        for part in self._file.fields(field.content, field.end):
            if part.number == _LINES and part.wire == BYTES:
                lines.append(part)
                continue
            if part.number == _NAME and part.wire == BYTES:
                name = _text(self._file.cut(part.content, min(part.end, part.content + 1000)))
                if not _is_used_plane(name):
                    return
            others.add(part.begin, part.end)
        if not _is_used_plane(name):
            return
        metadata = Metadata(self.texts)
        if others.total_bytes > MAX_METADATA_BYTES:
            raise TraceError("The trace names more operations than can be read; trace fewer steps or one program.")
        for begin, end in others:
            metadata.add(_XPlane.FromString(self._file.cut(begin, end)))
        for part in lines:
            line = self._line(part, name, metadata)
            if line is not None:
                yield line

    def _line(self, field: Field, plane: str, metadata: Metadata) -> Line | None:
        header, events, count = bytearray(), [], 0
        for part, several in self._file.runs(field.content, field.end, _EVENTS, CHUNK_BYTES):
            if several:
                events.append(part)
                count += several
                _check(self._events + count, MAX_EVENTS, "events")
            elif len(header) + part.end - part.begin <= MAX_EVENT_BYTES:
                header += self._file.cut(part.begin, part.end)
        info = _XLine.FromString(bytes(header))
        name = _text(info.name) or _text(info.display_name)
        if not count or not _is_used_line(plane, name):
            return None
        self._events += count
        self._lines += 1
        _check(self._lines, MAX_LINES, "threads and streams")
        columns = self._columns(info)
        for part in events:
            _check(part.end - part.begin, max(CHUNK_BYTES, MAX_EVENT_BYTES), "bytes in one event")
            self._values += columns.add(_XLine.FromString(self._file.cut(part.begin, part.end)).events, metadata)
            _check(self._values, MAX_VALUES, "values of events")
            self._file.release(part.begin, part.end)
        return Line(plane, name, info.id, columns.events())

    def _columns(self, info: Any) -> Columns:
        """Return columns whose times count from the timestamp of the trace's first line."""
        if self._origin_ns is None:
            self._origin_ns = info.timestamp_ns
        return Columns(self.texts, (info.timestamp_ns - self._origin_ns) * 1000)


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise TraceError(f"The trace holds more than {most:,} {what}; trace fewer steps, or in less detail.")


def _is_used_plane(name: str) -> bool:
    return name.startswith("/device:GPU:") or (name.startswith("/host:") and name not in SKIPPED_PLANES)


def _is_used_line(plane: str, name: str) -> bool:
    return plane.startswith("/host:") or name == "Steps" or name.startswith("Stream #")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
