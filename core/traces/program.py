"""Kernels of a program that XLA compiled for a GPU, read from its text (scheduled HLO).

The text is not a stable format: it is read as jaxlib 0.10.2 writes it, and recorded texts are tests. Everything that a
program launches is a fusion, a call of a library, a copy or a single operation; parameters, constants, tuples and
bitcasts launch nothing. A loop launches its body once per trip.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, get_args

from pydantic import Field

from core.base.schema import Frozen

KernelClass = Literal["product", "convolution", "fusion", "copy", "library", "other"]
CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)
MAX_KERNELS = 20_000
MAX_LAYER = 80
WINOGRAD_SIDE = 3
HALF = frozenset({"bf16", "f16"})
BITS = {"pred": 8, "token": 0, "opaque": 0} | {
    f"{kind}{bits}": bits for kind in "sufc" for bits in (2, 4, 8, 16, 32, 64, 128)
}
NOTHING = frozenset(
    {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "opt-barrier", "partition-id",
     "replica-id", "add-dependency", "async-done", "async-update", "copy-done", "domain", "while", "conditional",
     "call", "async-start"}
)  # fmt: skip
"""Operations that launch no kernel of their own; the last four launch those of the computations that they name."""
NO_CALL = ("Sharding", "SPMD", "AllocateBuffer", "annotate_device_placement", "__nop", "PinTo", "UnpinTo")
READS_PART = frozenset({"gather", "dynamic-slice", "slice"})
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+)\s*(?:\(.*)?\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_SHAPE = re.compile(r"([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]")
_NAMES = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"(?:calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"?(\d+)')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_CONTRACTED = re.compile(r'lhs_contracting_dim(?:s=\{|ensions":\[)([\d,"]*)')
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"window=\{size=([\dx]+)([^}]*)\}")
_SCOPE = re.compile(r"^[\w.\-]+$")
_WRAPPED = re.compile(r"^(\w+)\((.*)\)$")


class CompiledKernel(Frozen):
    """Kernels that are alike: ``times`` launches per step, each reading and writing ``bytes``.

    ``flops`` are those of its products and convolutions, a multiply-add as 2; element-wise work counts none. ``half``:
    their operands have 16 bits. ``winograd``: an algorithm with fewer multiplications exists (3 × 3, stride 1). Kernels
    with ``loop`` belong to a loop.
    """

    kind: KernelClass
    layer: Annotated[str, Field(max_length=MAX_LAYER)] = ""
    times: Annotated[int, Field(ge=1)] = 1
    bytes: Annotated[int, Field(ge=0)]
    flops: Annotated[int, Field(ge=0)] = 0
    half: bool = False
    winograd: bool = False
    loop: bool = False


class Program(Frozen):
    """Kernels of one step, and the memory that XLA plans for it: its arguments and results, of which ``alias_bytes``
    are the same memory, and what it takes meanwhile.
    """

    kernels: Annotated[tuple[CompiledKernel, ...], Field(max_length=MAX_KERNELS)]
    argument_bytes: Annotated[int, Field(ge=0)]
    output_bytes: Annotated[int, Field(ge=0)]
    alias_bytes: Annotated[int, Field(ge=0)]
    temporary_bytes: Annotated[int, Field(ge=0)]

    @property
    def memory_bytes(self) -> int:
        """Memory that a step needs at least: libraries, the CUDA context and other variables come on top."""
        return self.argument_bytes + self.output_bytes - self.alias_bytes + self.temporary_bytes

    @property
    def launches(self) -> int:
        """Kernels per step, without copies, as a profiler counts them."""
        return sum(kernel.times for kernel in self.kernels if kernel.kind != "copy")

    def count(self, kind: KernelClass) -> int:
        return sum(kernel.times for kernel in self.kernels if kernel.kind == kind)


def read_kernels(text: str) -> tuple[CompiledKernel, ...]:
    """Return the kernels of one step, those that are alike as one, in the order of their first launch.

    A loop whose number of trips the compiler does not know counts once.

    Raises:
        ValueError: The text has no entry computation, or more than :data:`MAX_KERNELS` kernels that differ.
    """
    computations, entry = _computations(text)
    if entry is None:
        raise ValueError("The compiled program has no entry computation; its text is not in a form that is known.")
    counts = Counter[CompiledKernel]()
    for kernel, trips in _launches(computations[entry], computations, 1):
        counts[kernel] += trips
    if len(counts) > MAX_KERNELS:
        raise ValueError(
            f"The compiled program has {len(counts):,} different kernels; at most {MAX_KERNELS:,} are read."
        )
    return tuple(kernel.model_copy(update={"times": times}) for kernel, times in counts.items())


@dataclass(frozen=True)
class _Instruction:
    """One line: ``shapes`` of its results, ``operands`` by name, and the attributes as text."""

    name: str
    opcode: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    inside: str
    attributes: str
    root: bool

    @property
    def bytes(self) -> int:
        return sum(_size(*shape) for shape in self.shapes)

    @property
    def elements(self) -> int:
        return math.prod(self.shapes[0][1])


@dataclass
class _Computation:
    instructions: dict[str, _Instruction] = field(default_factory=dict)

    @cached_property
    def users(self) -> Mapping[str, tuple[_Instruction, ...]]:
        """The instructions that take each value."""
        users: dict[str, tuple[_Instruction, ...]] = {}
        for instruction in self.instructions.values():
            for name in dict.fromkeys(instruction.operands):
                users[name] = (*users.get(name, ()), instruction)
        return users

    @cached_property
    def parameters(self) -> Mapping[int, _Instruction]:
        return {int(i.inside): i for i in self.instructions.values() if i.opcode == "parameter"}

    def shape(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return type and dimensions of a value; of an unknown one those of a number."""
        value = self.instructions.get(name)
        return value.shapes[0] if value is not None and value.shapes else ("f32", ())

    def bytes(self, names: Sequence[str]) -> int:
        return sum(self.instructions[name].bytes for name in dict.fromkeys(names) if name in self.instructions)


def _size(number: str, dimensions: tuple[int, ...]) -> int:
    """Return the bytes of an array; kinds of float8 and float4 have the bits that their name begins with."""
    bits = BITS.get(number) or int((re.match(r"[a-z]+(\d+)", number) or [0, 0])[1])
    return math.ceil(bits * math.prod(dimensions) / 8)


def _computations(text: str) -> tuple[dict[str, _Computation], str | None]:
    """Return all computations of a module by name, and the name of the entry."""
    computations: dict[str, _Computation] = {}
    entry, current = None, None
    for line in text.splitlines():
        if line.startswith("}"):
            current = None
        elif current is None:
            if (head := _COMPUTATION.match(line)) is not None and not line.startswith("HloModule"):
                current = computations.setdefault(head[2], _Computation())
                entry = head[2] if head[1] else entry
        elif (found := _INSTRUCTION.match(line)) is not None:
            instruction = _instruction(found[2], found[3], bool(found[1]))
            current.instructions[instruction.name] = instruction
    return computations, entry


def _instruction(name: str, rest: str, root: bool) -> _Instruction:
    """Read what follows ``name = ``: the shape, the operation, its operands in brackets, and attributes."""
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.find(" ")
    shape, call = rest[:end], rest[end:].lstrip()
    opened = call.find("(")
    closed = _closing(call, opened)
    inside = call[opened + 1 : closed]
    shapes = tuple((kind, tuple(int(d) for d in dims.split(",") if d)) for kind, dims in _SHAPE.findall(shape))
    return _Instruction(name, call[:opened], shapes, tuple(_NAMES.findall(inside)), inside, call[closed + 1 :], root)


def _closing(text: str, opened: int) -> int:
    """Return the place of the bracket that closes the one at ``opened``."""
    depth = 0
    for place in range(max(opened, 0), len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def _launches(
    computation: _Computation, every: Mapping[str, _Computation], trips: int, loop: bool = False
) -> Iterator[tuple[CompiledKernel, int]]:
    """Yield each kernel that a computation launches, with the launches per step."""
    for instruction in computation.instructions.values():
        called = [every[name] for name in _CALLED.findall(instruction.attributes) if name in every]
        if instruction.opcode == "while":
            known = _TRIPS.search(instruction.attributes)
            for part in called:
                yield from _launches(part, every, trips * (int(known[1]) if known else 1), loop=True)
        elif instruction.opcode == "conditional":
            names = _NAMES.findall((_BRANCHES.search(instruction.attributes) or ["", ""])[1])
            branches = [list(_launches(part, every, trips, loop)) for part in called or [every[n] for n in names]]
            yield from max(branches, key=len, default=[])
        elif instruction.opcode in ("call", "async-start"):
            for part in called:
                yield from _launches(part, every, trips, loop)
        elif (kernel := _kernel(instruction, computation, every, loop)) is not None:
            yield kernel, trips


def _kernel(
    instruction: _Instruction, around: _Computation, every: Mapping[str, _Computation], loop: bool
) -> CompiledKernel | None:
    """Return what one instruction launches, or None if that is nothing."""
    opcode, target = instruction.opcode, (_TARGET.search(instruction.attributes) or ["", ""])[1]
    if opcode in NOTHING or target.startswith(NO_CALL) or not instruction.bytes:
        return None
    called = _CALLED.findall(instruction.attributes) if opcode == "fusion" else ()
    inner = next((every[name] for name in called if name in every), None)
    work = _work(instruction, around, target) if inner is None else _total(inner, every)
    kind: KernelClass = "other"
    if work.kind is not None:
        kind = work.kind
    elif opcode.startswith("copy"):
        kind = "copy"
    elif opcode == "fusion":
        kind = "fusion"
    elif opcode == "custom-call":
        kind = "library"
    moved = _own_bytes(instruction, around) if inner is None else _fused_bytes(instruction, around, inner)
    return CompiledKernel(
        kind=kind, layer=layer_of((_OP_NAME.search(instruction.attributes) or ["", ""])[1]), bytes=moved,
        flops=work.flops, half=work.half, winograd=work.winograd, loop=loop,
    )  # fmt: skip


@dataclass(frozen=True)
class _Work:
    """FLOPs of products and convolutions, and which of the two; None if there is neither."""

    kind: KernelClass | None = None
    flops: int = 0
    half: bool = False
    winograd: bool = False


def _total(computation: _Computation, every: Mapping[str, _Computation]) -> _Work:
    """Return the work of a fused computation and of those that it calls."""
    parts = []
    for instruction in computation.instructions.values():
        parts.append(_work(instruction, computation, ""))
        if instruction.opcode in ("fusion", "call"):
            parts += [_total(every[n], every) for n in _CALLED.findall(instruction.attributes) if n in every]
    parts = [part for part in parts if part.kind is not None]
    if not parts:
        return _Work()
    kind: KernelClass = "convolution" if any(part.kind == "convolution" for part in parts) else "product"
    half, winograd = (all(getattr(part, name) for part in parts) for name in ("half", "winograd"))
    return _Work(kind, sum(part.flops for part in parts), half, winograd)


def _work(instruction: _Instruction, around: _Computation, target: str) -> _Work:
    """Return the work of a product or a convolution, of XLA's own or of a library."""
    convolves = instruction.opcode == "convolution" or target.startswith("__cudnn$conv")
    multiplies = instruction.opcode == "dot" or target.startswith("__cublas$")
    if not (convolves or multiplies) or len(instruction.operands) < 2:
        return _Work()
    kind, left = around.shape(instruction.operands[0])
    if multiplies:
        contracted = (_CONTRACTED.search(instruction.attributes) or ["", ""])[1].replace('"', "")
        summed = math.prod(left[int(d)] for d in contracted.split(",") if d and int(d) < len(left))
        return _Work("product", 2 * instruction.elements * summed, kind in HALF)
    return _convolution(instruction, around, target, kind)


def _convolution(instruction: _Instruction, around: _Computation, target: str, kind: str) -> _Work:
    """Return the work of a convolution: 2 × outputs × the filter's values per output channel.

    cuDNN's gradients are written with the dimensions of the forward pass, so outputs are then an operand.
    """
    first, second = (around.shape(name)[1] for name in instruction.operands[:2])
    result = instruction.shapes[0][1]
    outputs, filters = result, second
    if "BackwardInput" in target:
        outputs = first
    elif "BackwardFilter" in target:
        outputs, filters = second, result
    labels, window = _LABELS.search(instruction.attributes), _WINDOW.search(instruction.attributes)
    channels = filters[labels[2].index("o")] if labels and "o" in labels[2] and len(filters) == len(labels[2]) else 1
    sides = [int(side) for side in window[1].split("x")] if window else []
    winograd = (
        bool(sides) and all(side == WINOGRAD_SIDE for side in sides) and "stride" not in (window or ["", "", ""])[2]
    )
    flops = 2 * math.prod(outputs) * math.prod(filters) // max(1, channels)
    return _Work("convolution", flops, kind in HALF, winograd)


def _own_bytes(instruction: _Instruction, around: _Computation) -> int:
    """Return the bytes that a single operation reads and writes; one that takes part of an operand reads no more."""
    if instruction.opcode in READS_PART:
        return 2 * instruction.bytes + around.bytes(instruction.operands[1:])
    if instruction.opcode == "scatter":
        return around.bytes(instruction.operands[1:2]) + 2 * around.bytes(instruction.operands[2:3])
    if instruction.opcode == "dynamic-update-slice":
        return 2 * around.bytes(instruction.operands[1:2])
    return instruction.bytes + around.bytes(instruction.operands)


def _fused_bytes(instruction: _Instruction, around: _Computation, inner: _Computation) -> int:
    """Return the bytes that a fusion reads and writes.

    An operand of which only slices are taken counts as those, and one that is updated in place as the update.
    """
    read = 0
    for number, name in enumerate(instruction.operands):
        whole = around.bytes((name,))
        parameter = inner.parameters.get(number)
        read += whole if parameter is None else min(whole, _taken(parameter, inner))
    root = next((i for i in inner.instructions.values() if i.root), None)
    if root is None:
        return read + instruction.bytes
    results = (
        [inner.instructions[n] for n in root.operands if n in inner.instructions] if root.opcode == "tuple" else [root]
    )
    return read + sum(_written(result, inner) for result in results)


def _taken(value: _Instruction, inner: _Computation) -> int:
    """Return the bytes of a value that its users inside a fusion read."""
    taken = 0
    for user in inner.users.get(value.name, ()):
        if user.opcode == "bitcast":
            taken += _taken(user, inner)
        elif user.opcode in READS_PART and user.operands[0] == value.name:
            taken += user.bytes
        elif user.opcode in ("dynamic-update-slice", "scatter") and user.operands[0] == value.name:
            continue
        else:
            return value.bytes
    return taken


def _written(result: _Instruction, inner: _Computation) -> int:
    if result.opcode == "bitcast" and result.operands and result.operands[0] in inner.instructions:
        return _written(inner.instructions[result.operands[0]], inner)
    if result.opcode == "dynamic-update-slice":
        return inner.bytes(result.operands[1:2])
    return inner.bytes(result.operands[2:3]) if result.opcode == "scatter" else result.bytes


def layer_of(op_name: str) -> str:
    """Return the layer in an operation's name, as in “dense_1, backward”; empty if it names none.

    JAX writes ``jit(train_step)/transpose(jvp(dense_1))/dot_general``: calls, the scopes, and the operation.
    """
    scopes, backward = [], False
    for part in op_name.split("/")[:-1]:
        while (wrapped := _WRAPPED.match(part)) is not None:
            backward |= wrapped[1] == "transpose"
            part = "" if wrapped[1] in ("jit", "pjit") else wrapped[2]
        if _SCOPE.match(part) and part not in ("while", "body", "cond", "closed_call", "checkpoint"):
            scopes.append(part)
    return ("/".join(scopes) + (", backward" if scopes and backward else ""))[:MAX_LAYER]
