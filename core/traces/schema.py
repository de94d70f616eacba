"""Messages of an XSpace file, declared here so that reading a trace does not load TensorFlow.

Numbers and types are those of ``tsl/profiler/protobuf/xplane.proto``. Strings are declared as bytes, which look the
same in the file: a name that is not UTF-8 then spoils one name and not the whole trace. Unused fields are left out; the
parser skips unknown ones. The messages live in a descriptor pool of their own, beside which TensorFlow's may be loaded
in the same process.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
