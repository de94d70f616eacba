"""The computation of one step of a workload by operation: kernels, FLOPs and memory traffic at a given batch.

A layer's operations are its main kernel (a matrix product, a convolution) and the element-wise passes that TensorFlow
runs around it as separate kernels. Training adds the loss, the gradients in reverse order and the optimizer. XLA fuses
element-wise passes with each other and with the layers before them, so that they launch and move less; a fused build
(:mod:`core.hardware.host`) has one kernel per layer, loss and variable, but still one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.hardware.constants import KINDS
from core.hardware.host import Build
from core.hardware.layers import CONVOLUTIONS, PRODUCTS, LayerClass, Product, Shaped, shaped_layers
from core.workload.execution import expected
from core.workload.spec import Optimizer, Target, Workload

OpClass = LayerClass | Literal["loss", "optimizer"]
Phase = Literal["forward", "backward", "optimizer"]
Numbers = TypeVar("Numbers", float, NDArray[np.float64])

WIDTH_BYTES = 4
HALF_BYTES = 2
LOSS_KERNELS = {"forward": 18, "backward": 8}
"""Softmax cross-entropy with its mean and Keras's running mean of the loss, most of them on single numbers; counted in
traced graphs.
"""
LOSS_PASSES = 4
"""Reads and writes of all outputs in each direction."""
TILE, SPLIT_SUM = 64, 512
"""A block of a GPU computes about 64 × 64 results of a product; libraries split sums longer than about 512 among blocks
if there would be too few blocks (NVIDIA, Matrix Multiplication Background User's Guide).
"""
ATTENTION_PRODUCTS = 8
"""Number of an attention layer's kernels that belong to its four projections: a product and a bias each."""
FUSED_INSIDE = {"normalisation": 0.0, "elementwise": 0.0, "attention": 1.6}
"""Reads and writes of a layer's internal values if it is one kernel, else 2; the dropout masks of attention are
bytes.
"""
FLASH_TENSORS, FLASH_TENSORS_BACKWARD = 1, 2
"""Sets of four tensors as large as the input that attention in one kernel reads or writes: queries, keys, values and
the result, and in the backward pass also their gradients (Dao et al. 2022).
"""
ALIGNED = {"half": 8, "single": 4}
"""Multiples of channels in and out that tensor cores take without padding, by the width of the values (cuDNN's
guide).
"""


@dataclass(frozen=True)
class Op:
    """One operation of a step. ``kernels`` counts launches, ``sequential`` the dependent steps that share the work
    (time steps of a recurrent layer), ``flops`` a multiply-add as 2, ``bytes`` what is read and written.

    ``tiles``: blocks that can work on it in parallel; infinite if that limits nothing. ``tensor``: its shape allows
    tensor cores.
    """

    name: str
    kind: OpClass
    phase: Phase
    kernels: int
    flops: float
    bytes: float
    sequential: int = 1
    tiles: float = math.inf
    tensor: bool = True


@dataclass(frozen=True)
class _Update:
    """An optimizer's kernels for one variable, and the 4-byte values that they read or write per parameter."""

    kernels: int
    passes: int


# Keras 3 updates each variable by element-wise TensorFlow operations (keras/src/optimizers/sgd.py, adam.py); each
# reads one or two tensors and writes one; Adam computes its bias corrections again for each variable, ten operations on
# single numbers. Counted in traced graphs. Fused, each value is read and written once.
UPDATES: dict[Optimizer, _Update] = {"sgd": _Update(2, 5), "momentum": _Update(5, 13), "adam": _Update(22, 32)}
FUSED_UPDATES: dict[Optimizer, _Update] = {"sgd": _Update(1, 3), "momentum": _Update(1, 5), "adam": _Update(1, 7)}


@dataclass(frozen=True)
class _How:
    """The way in which the kernels of a step are built.

    ``fused``: each layer is one kernel. ``joined``: XLA also merges layers without weights into the ones before them.
    ``flash``: attention is one kernel that never writes its scores. ``eager``: PyTorch, which adds the bias of a
    convolution in a kernel of its own.
    """

    training: bool
    half: bool
    fused: bool
    joined: bool
    flash: bool
    eager: bool

    @property
    def width(self) -> int:
        return HALF_BYTES if self.half else WIDTH_BYTES


def ops_of(
    workload: Workload, target: Target, batch: int, build: Build = "keras", flash: bool = False
) -> tuple[Op, ...]:
    """Return the step's operations at ``batch`` samples: forward, then (in training) loss, backward and optimizer."""
    execution = expected(workload.network, target).execution
    xla = execution == "xla"
    how = _How(
        workload.training, target.is_mixed, fused=xla or build == "fused", joined=xla, flash=flash,
        eager=execution == "eager",
    )  # fmt: skip
    return _ops(workload, how, batch)


@lru_cache(maxsize=4096)
def _ops(workload: Workload, how: _How, batch: int) -> tuple[Op, ...]:
    layers = shaped_layers(workload.network)
    ops = [op for layer in layers for op in _forward(layer, batch, how)]
    if not workload.training:
        return tuple(ops)
    outputs = layers[-1].count.activations * batch
    ops += [_loss(phase, outputs, how.fused) for phase in ("forward", "backward")]
    ops += [op for layer in reversed(layers) for op in _backward(layer, batch, how)]
    ops += [op for layer in layers for op in _update(layer, workload.optimizer, how)]
    return tuple(ops)


def _loss(phase: Literal["forward", "backward"], values: float, fused: bool) -> Op:
    kernels = 2 if fused else LOSS_KERNELS[phase]
    return Op(f"loss {phase}", "loss", phase, kernels, 5.0 * values, float(WIDTH_BYTES * LOSS_PASSES * values))


def _forward(layer: Shaped, batch: int, how: _How) -> list[Op]:
    ops, count, own = [], layer.count, layer.kernels
    counted = (how.training and own.training_kernels) or own.kernels
    if counted:
        traversals = (own.fused if how.fused else own.traversals)[1 if how.training else 0]
        kernels, moved = _kernels(layer, counted, how), _moved(layer, batch, how, traversals)
        flops = float(count.forward_flops * batch)
        ops += _parts(layer, Op(count.name, own.kind, "forward", kernels, flops, moved, layer.sequential), batch, how)
    if layer.passes:
        ops.append(_pass(layer, f"{count.name} element-wise", "forward", batch, how))
    return ops


def _backward(layer: Shaped, batch: int, how: _How) -> list[Op]:
    ops, count, own = [], layer.count, layer.kernels
    if layer.passes:
        ops.append(_pass(layer, f"{count.name} element-wise gradient", "backward", batch, how))
    gradients = []
    if count.parameters and own.kernels:
        gradients.append(("weight gradient", count.weight_gradient_flops))
    if count.input_gradient_flops or ((own.kernels or own.training_kernels) and not count.parameters):
        gradients.append(("input gradient", count.input_gradient_flops))
    kernels = _kernels(layer, own.gradient_kernels or own.kernels or own.training_kernels, how)
    traversals = (own.fused if how.fused else own.traversals)[2] / max(1, len(gradients))
    moved = _moved(layer, batch, how, traversals)
    for gradient, flops in gradients:
        name = f"{count.name} {gradient}"
        op = Op(name, own.kind, "backward", kernels, float(flops * batch), moved, layer.sequential)
        ops += _parts(layer, op, batch, how)
    return ops


def _parts(layer: Shaped, op: Op, batch: int, how: _How) -> list[Op]:
    """Return the operation with its blocks, or for attention its projections and its scores, whose shapes differ."""
    product = layer.product
    if product is None:
        return [op]
    op = replace(op, tiles=_tiles(product, op.name, batch))
    if op.kind == "attention":
        return _attention(layer, product, op, batch, how)
    least = ALIGNED["half" if how.half else "single"]
    aligned = product.columns % least == 0 and product.channels % least == 0
    return [replace(op, tensor=op.kind == "dense" or aligned)]


def _attention(layer: Shaped, product: Product, op: Op, batch: int, how: _How) -> list[Op]:
    """Return the projections and the scores of an attention layer; ``product`` is that of one projection.

    The scores of all heads are products of their own.
    """
    backward = op.phase == "backward"
    values = 8.0 * product.rows * product.columns * batch
    projected = min(op.flops, values * product.depth)
    through = min(op.bytes, how.width * (values + layer.touched(batch)))
    ours = max(1, round(op.kernels * ATTENTION_PRODUCTS / layer.kernels.kernels))
    projections = replace(op, kind="dense", kernels=ours, bytes=through, tiles=4 * op.tiles)
    if op.flops < projected or (backward and "input" in op.name):
        return [projections]
    theirs = max(1, op.kernels - ours) * (2 if backward else 1)  # both gradients of the scores are counted here
    scores = op.bytes - through
    if how.flash:
        theirs = 1
        scores = how.width * values / 2 * (FLASH_TENSORS_BACKWARD if backward else FLASH_TENSORS)
    return [
        replace(projections, name=f"{op.name}: projections", flops=projected),
        Op(f"{op.name}: scores", "attention", op.phase, theirs, op.flops - projected, scores),
    ]


def _tiles(product: Product, name: str, batch: int) -> float:
    """Return the blocks that can work in parallel on the results of forward, weight gradient or input gradient."""
    rows, columns, depth = float(product.rows * batch), float(product.columns), float(product.depth)
    if name.endswith("weight gradient"):
        rows, depth = depth, rows
    elif name.endswith("input gradient"):
        columns, depth = depth, columns
    return product.groups * float(blocks(rows, columns, depth))


def blocks(rows: Numbers, columns: Numbers, depth: Numbers) -> Numbers:
    """Return the blocks of a product of rows × columns results with sums of ``depth``, for one or many products."""
    return np.ceil(rows / TILE) * np.ceil(columns / TILE) * np.maximum(1.0, depth / SPLIT_SUM)


def _is_gate(layer: Shaped) -> bool:
    """Check that a smaller tensor scales a larger one, as a squeeze-and-excitation's gate does.

    The gate is computed from all of what it scales, which is therefore read once more.
    """
    return layer.count.activations < layer.inputs < 2 * layer.count.activations


def _moved(layer: Shaped, batch: int, how: _How, traversals: float) -> float:
    """Return the bytes in and out: inputs, outputs, internal values, weights, and ``traversals`` more outputs."""
    kind, outputs = layer.kernels.kind, layer.count.activations
    inside = 2.0 if not how.fused else FUSED_INSIDE.get(kind, 2.0)
    if kind in PRODUCTS:  # the activation's own pass moves what it keeps
        inside = 0.0
    values = layer.inputs + outputs * (1 + traversals) + inside * layer.count.internal
    if how.joined and kind == "elementwise":  # XLA keeps the previous layer in registers: only other inputs remain
        values = layer.inputs + outputs if _is_gate(layer) else max(0, layer.inputs - outputs)
    return float(how.width * (values * batch + layer.touched(batch)))


def _kernels(layer: Shaped, kernels: int, how: _How) -> int:
    if how.joined and layer.kernels.kind == "elementwise" and not _is_gate(layer):
        return 0
    if not how.fused or not kernels:
        return kernels
    if layer.kernels.kind == "attention":
        return math.ceil(kernels / 2)
    return 1 if layer.kernels.fusible else kernels


def _pass(layer: Shaped, name: str, phase: Phase, batch: int, how: _How) -> Op:
    """Return the element-wise kernels of a layer, each reading and writing all values.

    Fused, there is only one; the product itself adds a bias, and the bias gradient reads the values once.
    """
    values = float(layer.count.activations * batch)
    kernels, traversals = layer.passes, 2.0 * layer.passes
    if how.fused:
        kernels, traversals = 1, 2.0
        if not layer.activated:
            kernels, traversals = (0, 0.0) if phase == "forward" else (1, 1.0)
        if how.eager and phase == "forward" and layer.kernels.kind in CONVOLUTIONS and layer.biased:
            kernels, traversals = kernels + 1, traversals + 2.0
    return Op(name, "elementwise", phase, kernels, layer.passes * values, traversals * how.width * values)


def _update(layer: Shaped, optimizer: Optimizer, how: _How) -> list[Op]:
    size, variables = float(layer.count.parameters), layer.kernels.variables
    if not size:
        return []
    update = (FUSED_UPDATES if how.fused else UPDATES)[optimizer]
    kernels, moved = update.kernels * variables, update.passes * WIDTH_BYTES
    if how.half and not how.fused:  # a half-precision copy of the weights and a single-precision copy of the gradient
        kernels, moved = kernels + 2 * variables, moved + 2 * (WIDTH_BYTES + HALF_BYTES)
    return [Op(f"{layer.count.name} update", "optimizer", "optimizer", kernels, update.passes * size, moved * size)]


Floats = NDArray[np.float64]
TENSOR_KINDS = PRODUCTS | {"attention", "recurrent"}


@dataclass(frozen=True, eq=False)
class OpTable:
    """Arrays with one entry per operation.

    ``kind`` is its index in :data:`~core.hardware.constants.KINDS`; ``tensor`` is True if it may use tensor cores; the
    rest is as in :class:`~core.hardware.work.Op`.
    """

    kind: NDArray[np.int64]
    kernels: Floats
    flops: Floats
    bytes: Floats
    tiles: Floats
    tensor: NDArray[np.bool_]


def table_of(ops: tuple[Op, ...]) -> OpTable:
    """Convert operations to arrays."""
    return OpTable(
        kind=np.array([KINDS.index(op.kind) for op in ops]),
        kernels=np.array([op.kernels for op in ops], dtype=float),
        flops=np.array([op.flops for op in ops]),
        bytes=np.array([op.bytes for op in ops]),
        tiles=np.array([op.tiles for op in ops]),
        tensor=np.array([op.tensor and op.kind in TENSOR_KINDS for op in ops]),
    )


@lru_cache(maxsize=4096)
def step_table(workload: Workload, target: Target, batch: int, build: Build, flash: bool = False) -> OpTable:
    """Return the operations of one step; the execution of ``target`` must not be left to Keras."""
    return table_of(ops_of(workload, target, batch, build, flash))
