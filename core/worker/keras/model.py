"""Keras networks on any backend: built, compiled with loss and optimizer, and renewed.

Keras's own int8 (``model.quantize("int8")``) covers Dense, EinsumDense and Embedding layers. Their weights become int8
with one scale per output; the inputs of Dense and EinsumDense are scaled and rounded in every step, one scale per
sample, and the product is int8 times int8 into int32 (keras/src/layers/core/dense.py, ``_int8_call``). There is nothing
to calibrate.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Literal

import keras
import numpy as np

from core.base.evidence import OutputDifference
from core.base.numbers import counted
from core.networks.families import Network
from core.worker.accuracy import output_difference, samples_compared
from core.worker.feeds import make_arrays
from core.worker.protocol import CellFailed
from core.workload.spec import Target, Workload

LEARNING_RATE = 1e-4
"""Does not affect a step's cost; small, so that a network stays in one state however long it is measured."""


def build(workload: Workload, target: Target, jit_compile: bool | Literal["auto"]) -> Any:
    """Return a compiled ``keras.Model`` with all its variables, in the target's precision; eager if the target is.

    A model in int8 has an ``output_difference``. Raises CellFailed ``error`` if no layer has int8.
    """
    _set_seed()
    keras.mixed_precision.set_dtype_policy(target.precision if target.is_mixed else "float32")
    network = workload.network
    model = network.build_open(keras) if workload.lengths else network.build(keras)
    if target.precision == "int8":
        model.output_difference = quantise(model, workload)
    learning: dict[str, Any] = {}
    if workload.training:
        learning = {"optimizer": make_optimizer(workload.optimizer), "loss": make_loss(workload.network)}
    model.compile(
        jit_compile=jit_compile,
        run_eagerly=target.execution == "eager",
        steps_per_execution=target.steps_per_execution,
        **learning,
    )
    if workload.training:
        model.optimizer.build(model.trainable_variables)  # as fit does before its first step
    return model


def _set_seed() -> None:
    """Seed without importing TensorFlow, which Keras's own function would do on another backend if it is installed."""
    if keras.backend.backend() == "tensorflow":
        keras.utils.set_random_seed(0)
    else:
        random.seed(0)  # Keras draws its own seeds from it
        np.random.seed(0)


def without_compiler(model: Any) -> str:
    """Return the kinds of layer that keep Keras from compiling, such as “GRU and LSTM layers”; empty if none."""
    kinds = sorted({type(layer).__name__ for layer in model._flatten_layers() if not layer.supports_jit})
    return f"{' and '.join(kinds)} layers" if kinds else ""


def make_loss(network: Network) -> Any:
    """Return the cross-entropy between a network's outputs, logits or probabilities, and the class numbers."""
    if network.classes == 1:
        return keras.losses.BinaryCrossentropy(from_logits=network.from_logits)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=network.from_logits)


def make_optimizer(name: str, rate: float = LEARNING_RATE) -> Any:
    if name == "adam":
        return keras.optimizers.Adam(rate)
    return keras.optimizers.SGD(rate, momentum=0.9 if name == "momentum" else 0.0)


def renew(model: Any, fresh: Any, training: bool) -> None:
    """Reset a diverged model to the values of a fresh one, so that other cells that share it work again."""
    model.set_weights(fresh.get_weights())
    if training:
        for old, new in zip(model.optimizer.variables, fresh.optimizer.variables, strict=True):
            old.assign(new)
        model.reset_metrics()


def quantise(model: Any, workload: Workload) -> OutputDifference:
    """Quantise a built float32 model to int8; return how its outputs for random samples differ from before.

    Raises CellFailed ``error`` if no layer of it has int8: it would run in float32 under the wrong name.
    """
    network = workload.network
    (samples,) = make_arrays(workload, samples_compared(network))
    exact = _outputs(model, samples)
    model.quantize("int8")
    leaves = [layer for layer in model._flatten_layers(include_self=False) if _is_leaf(layer) and layer.variables]
    done = Counter(type(layer).__name__ for layer in leaves if layer.quantization_mode == "int8")
    left = Counter(type(layer).__name__ for layer in leaves if layer.quantization_mode != "int8")
    if not done:
        raise CellFailed("error", "Keras has int8 for Dense, EinsumDense and Embedding layers; this network has none.")
    words = _words(done) + (f"; {_words(left)} {'stays' if left.total() == 1 else 'stay'} in float32" if left else "")
    return output_difference(exact, _outputs(model, samples), network, words)


def _outputs(model: Any, samples: np.ndarray) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(model(samples, training=False)))


def _is_leaf(layer: Any) -> bool:
    return len(list(layer._flatten_layers())) == 1


def _words(layers: Counter[str]) -> str:
    return ", ".join(f"{counted(number, f'{kind} layer')}" for kind, number in sorted(layers.items()))
