"""Keras networks on any backend: built, compiled with loss and optimizer, and renewed."""

from __future__ import annotations

import random
from typing import Any, Literal

import keras
import numpy as np

from core.networks.families import Network
from core.worker.keras.int8 import quantise
from core.workload.spec import Target, Workload

LEARNING_RATE = 1e-4
"""Does not affect a step's cost; small, so that a network stays in one state however long it is measured."""


def build(workload: Workload, target: Target, jit_compile: bool | Literal["auto"]) -> Any:
    """Return a compiled ``keras.Model`` with all its variables, in the target's precision; eager if the target is.

    A model in int8 has an ``output_difference``. Raises CellFailed ``error`` if no layer has int8.
    """
    _set_seed()
    keras.mixed_precision.set_dtype_policy(target.precision if target.is_mixed else "float32")
    model = workload.network.build(keras)
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
