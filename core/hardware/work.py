"""What one step of a workload computes, operation by operation: kernels, FLOPs and memory traffic at a given batch.

A layer's operations are its main kernel (a matrix product, a convolution) and the element-wise passes that TensorFlow
runs around it as kernels of their own. Training adds the loss, the gradients in reverse order and the optimizer. XLA
fuses element-wise passes with each other, so that they launch and move less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from core.analysis.execution import expected
from core.hardware.layers import LayerClass, Shaped, shaped_layers
from core.spec import Optimizer, Target, Workload

OpClass = LayerClass | Literal["loss", "optimizer"]
Phase = Literal["forward", "backward", "optimizer"]

WIDTH_BYTES = 4
HALF_BYTES = 2
FUSED = 4
"""Kernels of a normalisation that XLA makes one of."""
LOSS_KERNELS = {"forward": 18, "backward": 8}
"""Softmax cross-entropy with its mean and Keras's running mean of the loss, most of them on single numbers; counted in
traced graphs."""
LOSS_PASSES = 4
"""Reads and writes of all outputs in either direction."""


@dataclass(frozen=True)
class Op:
    """One operation of a step. ``kernels`` counts launches, ``sequential`` the dependent steps that share the work
    (time steps of a recurrent layer), ``flops`` a multiply-add as 2, ``bytes`` what is read and written.
    """

    name: str
    kind: OpClass
    phase: Phase
    kernels: int
    flops: float
    bytes: float
    sequential: int = 1


@dataclass(frozen=True)
class _Update:
    """An optimizer's kernels for one variable, and the values of 4 bytes that they read or write for each parameter."""

    kernels: int
    passes: int


# Keras 3 updates each variable by element-wise TensorFlow operations (keras/src/optimizers/sgd.py, adam.py); each
# reads one or two tensors and writes one; Adam computes its bias corrections again for each variable, ten operations on
# single numbers. Counted in traced graphs. Fused by XLA, each value is read and written once.
UPDATES: dict[Optimizer, _Update] = {"sgd": _Update(2, 5), "momentum": _Update(5, 13), "adam": _Update(22, 32)}
FUSED_UPDATES: dict[Optimizer, _Update] = {"sgd": _Update(1, 3), "momentum": _Update(1, 5), "adam": _Update(1, 7)}


def ops_of(workload: Workload, target: Target, batch: int) -> tuple[Op, ...]:
    """The step's operations at ``batch`` samples: forward, then (in training) loss, backward and optimizer."""
    return _ops(workload, expected(workload.network, target).execution == "xla", target.is_mixed, batch)


@lru_cache(maxsize=4096)
def _ops(workload: Workload, fused: bool, half: bool, batch: int) -> tuple[Op, ...]:
    width = HALF_BYTES if half else WIDTH_BYTES
    layers = shaped_layers(workload.network)
    found = [op for layer in layers for op in _forward(layer, batch, width, fused, workload.training)]
    if not workload.training:
        return tuple(found)
    outputs = layers[-1].count.activations * batch
    found += [_loss(phase, outputs, fused) for phase in ("forward", "backward")]
    found += [op for layer in reversed(layers) for op in _backward(layer, batch, width, fused)]
    found += [op for layer in layers for op in _update(layer, workload.optimizer, half, fused)]
    return tuple(found)


def _loss(phase: Literal["forward", "backward"], values: float, fused: bool) -> Op:
    kernels = 2 if fused else LOSS_KERNELS[phase]
    return Op(f"loss {phase}", "loss", phase, kernels, 5.0 * values, float(WIDTH_BYTES * LOSS_PASSES * values))


def _forward(layer: Shaped, batch: int, width: int, fused: bool, training: bool) -> list[Op]:
    found, count, own = [], layer.count, layer.kernels
    if own.kernels:
        kernels = _fused(layer, (training and own.training_kernels) or own.kernels, fused)
        moved = _moved(layer, batch, width, 0 if fused else own.traversals[0])
        flops = float(count.forward_flops * batch)
        found.append(Op(count.name, own.kind, "forward", kernels, flops, moved, layer.sequential))
    if layer.passes:
        name = f"{count.name} element-wise"
        found.append(_pass(name, "forward", layer.passes, count.activations * batch, width, fused))
    return found


def _backward(layer: Shaped, batch: int, width: int, fused: bool) -> list[Op]:
    found, count, own = [], layer.count, layer.kernels
    if layer.passes:
        name = f"{count.name} element-wise gradient"
        found.append(_pass(name, "backward", layer.passes, count.activations * batch, width, fused))
    gradients = []
    if count.parameters and own.kernels:
        gradients.append(("weight gradient", count.weight_gradient_flops))
    if count.input_gradient_flops or (own.kernels and not count.parameters):
        gradients.append(("input gradient", count.input_gradient_flops))
    kernels = _fused(layer, own.gradient_kernels or own.kernels, fused)
    moved = _moved(layer, batch, width, 0 if fused else own.traversals[1] // max(1, len(gradients)))
    for name, flops in gradients:
        what = f"{count.name} {name}"
        found.append(Op(what, own.kind, "backward", kernels, float(flops * batch), moved, layer.sequential))
    return found


def _moved(layer: Shaped, batch: int, width: int, traversals: int) -> float:
    """Bytes in and out: inputs, outputs, what is made inside, weights, and ``traversals`` of the outputs beside."""
    values = layer.inputs + layer.count.activations * (1 + traversals) + 2 * layer.count.internal
    return float(width * (values * batch + layer.touched(batch)))


def _fused(layer: Shaped, kernels: int, fused: bool) -> int:
    return max(1, kernels // FUSED) if fused and layer.kernels.fusible else kernels


def _pass(name: str, phase: Phase, passes: int, values: float, width: int, fused: bool) -> Op:
    """Element-wise kernels one after the other, each reading and writing ``values``; one alone when fused."""
    kernels = 1 if fused else passes
    return Op(name, "elementwise", phase, kernels, float(passes * values), 2.0 * width * kernels * values)


def _update(layer: Shaped, optimizer: Optimizer, half: bool, fused: bool) -> list[Op]:
    size, variables = float(layer.count.parameters), layer.kernels.variables
    if not size:
        return []
    update = (FUSED_UPDATES if fused else UPDATES)[optimizer]
    kernels, moved = update.kernels * variables, update.passes * WIDTH_BYTES
    if half and not fused:  # the weights' copy in half precision, and the gradient's in single
        kernels, moved = kernels + 2 * variables, moved + 2 * (WIDTH_BYTES + HALF_BYTES)
    return [Op(f"{layer.count.name} update", "optimizer", "optimizer", kernels, update.passes * size, moved * size)]
