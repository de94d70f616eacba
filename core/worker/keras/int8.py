"""Keras's own int8: ``model.quantize("int8")``, on any backend.

It covers Dense, EinsumDense and Embedding layers. Their weights become int8 with one scale per output; the inputs of
Dense and EinsumDense are scaled and rounded in every step, one scale per sample, and the product is int8 times int8
into int32 (keras/src/layers/core/dense.py, ``_int8_call``). There is nothing to calibrate.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import keras
import numpy as np

from core.base.evidence import OutputDifference
from core.base.numbers import counted
from core.worker.accuracy import output_difference, samples_compared
from core.worker.feeds import make_arrays
from core.worker.protocol import CellFailed
from core.workload.spec import Workload


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
