"""Classification of events by name. The names are TensorFlow's (2.3 to 2.21), with sources given below, and those of
PyTorch that :mod:`core.traces.chrome` leaves to this module: copies and data loading.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from core.traces.events import Line
from core.traces.record import PARTS, Part


class Kind(IntEnum):
    """Kind of a host event. OP computes; BOOKKEEPING is an operation that only passes tensors on or calls others."""

    OTHER = 0
    OP = 1
    BOOKKEEPING = 2
    INPUT = 3
    WAIT = 4
    EAGER = 5
    RUN = 6
    THUNKS = 7
    END = 8


EAGER = "EagerLocalExecute: "
_OPERATION = re.compile(r"(?P<name>[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*):(?P<type>[A-Z_][a-zA-Z0-9_]*)")
"""``name:Type``, as in ``IsTfOpName`` and ``IsTfOpType`` of xla/tsl/profiler/utils/tf_op_utils.cc."""
_INPUT_TYPE = re.compile(r"(MultiDevice)?IteratorGetNext\w*")
_INPUT = re.compile(rf"IteratorGetNext\w*(::.*)?|Iterator::.*|{EAGER}{_INPUT_TYPE.pattern}|enumerate\(DataLoader\)#.*")
_COLLECTIVE = re.compile(r"(all-(reduce|gather|to-all)|reduce-scatter|collective-permute)(-start|-done)?(\.\d+)*")
"""Operations of an XLA program that exchange data among devices (xla/hlo/ir/hlo_opcode.h), as named in CPU traces."""
_DRIVER = re.compile(r"(?:cu|cuda|hip)[A-Z](\w*)")
_WORD = re.compile(r"\w*")
_WAITS = ("BlockHostUntilDone", "BlockUntilReady", "Await")
"""Matched in the last word of a name."""
_CALLS = ("__inference", "__forward", "__backward", "Collective", "Nccl")
"""Operations that call functions or other devices: their time is that of the callee."""
_BOOKKEEPING_TYPES = (
    "_Arg _Retval _DeviceArg _DeviceRetval _SOURCE _SINK NoOp Identity IdentityN Snapshot ReadVariableOp "
    "_ReadVariablesOp VarHandleOp _VarHandlesOp VarIsInitializedOp DestroyResourceOp Const _EagerConst _HostConst "
    "Placeholder PlaceholderWithDefault Shape ShapeN Rank Size Reshape Squeeze ExpandDims EnsureShape StopGradient "
    "PreventGradient BroadcastGradientArgs If StatelessIf While StatelessWhile Case StatelessCase LoopCond Enter Exit "
    "Merge Switch _SwitchN NextIteration RefEnter RefExit RefMerge RefSwitch ControlTrigger Assert PartitionedCall "
    "StatefulPartitionedCall RemoteCall SymbolicGradient _Send _Recv _HostSend _HostRecv "
    "XlaLaunch _XlaCompile _XlaRun _XlaMerge SyncDevice OptionalFromValue OptionalNone OptionalHasValue "
    "OptionalGetValue IsVariableInitialized"
)
_BOOKKEEPING = frozenset(_BOOKKEEPING_TYPES.split())
VIEWS = frozenset({"StridedSlice", "Slice"})
"""On a GPU these may only make a view of their input and start nothing, so that their place of execution is unknown."""
_EXPECTED = (
    ("input", re.compile(r".*(Iterator|Dataset|Optional(From|Get|Has|None)).*|Decode\w+|ReadFile|Parse\w*Example\w*")),
    ("summary", re.compile(r".*Summary.*")),
    ("string", re.compile(r".*String.*|AsString|Substr|StaticRegex\w*|Regex\w*|PrintV2|Print")),
)
_COPIES: tuple[tuple[str, Part], ...] = (
    ("memcpyh2d", "h2d"),
    ("memcpyhtod", "h2d"),
    ("memcpyd2h", "d2h"),
    ("memcpydtoh", "d2h"),
    ("memcpyd2d", "d2d"),
    ("memcpydtod", "d2d"),
    ("memcpyp2p", "d2d"),
    ("memcpy", "other"),
)
"""By the beginning of an event's name; the first match counts."""
_BACKGROUND = "tf_data_"


def operation(text: str) -> tuple[str, str] | None:
    """Return name and type of the operation behind an event, or None."""
    if text.startswith(EAGER):
        return text[len(EAGER) :], text[len(EAGER) :]
    match = _OPERATION.fullmatch(text)
    return (match["name"], match["type"]) if match else None


def is_collective(text: str) -> bool:
    """Return True for an XLA operation that exchanges data among devices: it waits and hardly computes."""
    return _COLLECTIVE.fullmatch(text) is not None


def kinds(texts: tuple[str, ...]) -> NDArray[np.int8]:
    """Return the kind of the host events of each name, shape (texts,)."""
    return np.array([_kind(text) for text in texts], dtype=np.int8)


def _waits(text: str) -> bool:
    """Return True for names of waits; written to avoid a pattern that rescans a long name for each of its words."""
    driver = _DRIVER.fullmatch(text)
    last = _WORD.match(text[::-1])
    word = last[0][::-1] if last else ""
    return (
        (driver is not None and "Synchronize" in driver[1])
        or text.endswith(": SyncDevice")
        or any(wait in word for wait in _WAITS)
    )


def _kind(text: str) -> Kind:
    if text.startswith("end: "):
        return Kind.END
    if _waits(text):
        return Kind.WAIT
    if _INPUT.fullmatch(text):
        return Kind.INPUT
    if text.startswith("KernelAndDevice") and text.endswith("::Run"):
        return Kind.RUN
    if text == "ThunkExecutor::Execute":
        return Kind.THUNKS
    if is_collective(text):
        return Kind.BOOKKEEPING
    named = operation(text)
    if named is None:
        return Kind.OTHER
    if _INPUT_TYPE.fullmatch(named[1]):
        return Kind.INPUT
    if named[1] in _BOOKKEEPING or named[1].startswith(_CALLS):
        return Kind.BOOKKEEPING
    return Kind.EAGER if text.startswith(EAGER) else Kind.OP


def device_parts(texts: tuple[str, ...]) -> NDArray[np.int8]:
    """Return the part of the device events of each name, as an index into :data:`PARTS`, shape (texts,)."""
    return np.array([PARTS.index(device_part(text)) for text in texts], dtype=np.int8)


def device_part(text: str) -> Part:
    """Return the part of a step to which an event on a GPU's stream belongs.

    As in xprof's ``ClassifyGpuEvent`` (xplane_to_step_events.cc) everything but copies is compute, including memory
    sets. Unlike there, copies from another GPU (``MemcpyP2P``) count as device-to-device, copies of unknown kind as
    other, and collectives (``nccl...``) as the kernels they are.
    """
    lower = text.lower().replace("memcpy ", "memcpy")  # PyTorch writes “Memcpy HtoD (Pageable -> Device)”
    return next((part for start, part in _COPIES if lower.startswith(start)), "compute")


def expected(op_type: str) -> str:
    """Return the reason an operation of this type belongs on the host (input, summary, string, control), or ""."""
    why = next((why for why, pattern in _EXPECTED if pattern.fullmatch(op_type)), "")
    return why or ("control" if op_type in _BOOKKEEPING or op_type.startswith(_CALLS) else "")


def is_host(line: Line) -> bool:
    return line.plane == "/host:CPU"


def is_producer(line: Line) -> bool:
    """Return True for a thread that prepares data in the background (``tf.data``), apart from the steps that use it."""
    return is_host(line) and line.name.startswith(_BACKGROUND) and "get_next" not in line.name
