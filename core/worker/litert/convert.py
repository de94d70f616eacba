"""Conversion of a Keras network to a LiteRT program for one batch size, in float32 or int8."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from core.worker.protocol import CellFailed

LOOPS = ("While", "StatelessWhile", "LoopCond")
UNKNOWN_OP = re.compile(r"'(tf\.\w+)' op is neither a custom op nor a flex op")


def convert(model: Any, example: np.ndarray, calibration: np.ndarray | None = None) -> bytes:
    """Return the program for batches of exactly the shape and type of ``example``.

    With ``calibration``, samples in whole batches, weights and activations are in int8, quantised after training with
    those samples' ranges. Inputs and outputs stay float32 (token ids int64), as for any other target.

    Raises CellFailed ``error`` for a network with operations that LiteRT lacks.
    """
    frozen = _frozen(model, example)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if calibration is not None:
        _refuse_loops(frozen)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _batches(calibration, len(example))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    try:
        return bytes(converter.convert())
    except Exception as error:
        if found := sorted(set(UNKNOWN_OP.findall(str(error)))):
            raise CellFailed("error", f"LiteRT has no operation for {', '.join(found)} of this network.") from None
        raise


def _frozen(model: Any, example: np.ndarray) -> Any:
    """Return the network as one function of a fixed shape with its weights as constants.

    LiteRT's own handling of variables leaves them empty here, and the outputs are then NaN.
    """

    def infer(x: Any) -> Any:
        return model(x, training=False)

    return convert_variables_to_constants_v2(
        tf.function(infer, input_signature=[tf.TensorSpec(example.shape, example.dtype)]).get_concrete_function()
    )


def _batches(samples: np.ndarray, batch: int) -> Iterator[list[np.ndarray]]:
    for begin in range(0, len(samples), batch):
        yield [samples[begin : begin + batch]]


def _refuse_loops(frozen: Any) -> None:
    """Raise CellFailed for a loop, at which LiteRT's calibration crashes by a segmentation fault (TensorFlow 2.21)."""
    graph = frozen.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    if any(node.op in LOOPS for node in nodes):
        raise CellFailed(
            "error",
            "LiteRT cannot quantise a network with a loop, as LSTM and GRU layers have; choose precision=float32.",
        )
