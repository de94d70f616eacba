"""Rules for whether Keras runs a network's recurrent layers with cuDNN kernels on a GPU, and why not.

The conditions are those of Keras 3.15 on TensorFlow, taken from its source: ``LSTM.inner_loop`` and ``GRU.inner_loop``
(keras/src/layers/rnn/lstm.py, gru.py), ``cudnn_ok`` and ``_assert_valid_mask`` (keras/src/backend/tensorflow/rnn.py),
``model_supports_jit`` (keras/src/trainers/trainer.py). Half precision is no obstacle: TensorFlow 2.21 registers
``CudnnRNNV3`` for float16, bfloat16, float32 and float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.networks.architecture.graph import Graph, Layer
from core.networks.families.graph_network import GraphNetwork
from core.workload.spec import Target, Workload

KERAS = "3.15"
"""Version of Keras these conditions were read from."""

CELLS = ("LSTM", "GRU")
"""Layers for which Keras has a cuDNN path."""
RECURRENT = (*CELLS, "SimpleRNN")


def cudnn_reasons(graph: Graph, target: Target) -> tuple[str, ...]:
    """Return the reasons why recurrent layers do not take the cuDNN path on the target, one sentence per layer.

    Empty if all of them take it, or there are none.
    """
    cells = tuple(_cells(graph))
    if cells and not target.is_gpu:
        return (f"{target} is no GPU; cuDNN serves GPUs only.",)
    refusals = []
    for name, kind, options in cells:
        if obstacles := [*_obstacles(kind, options), *_own_obstacles(kind, options)]:
            refusals.append(f"Layer “{name}” ({kind}) {' and '.join(obstacles)}.")
    return tuple(refusals)


def turns_xla_off(graph: Graph) -> bool:
    """Return True if Keras runs the whole network without XLA on a GPU although ``jit_compile`` asks for it.

    It does so for any LSTM or GRU whose activations and biases fit cuDNN, even if recurrent dropout then rules cuDNN
    out.
    """
    return any(kind in CELLS and not _obstacles(kind, options) for _, kind, options in _cells(graph))


def cudnn_note(workload: Workload, targets: Sequence[Target]) -> str | None:
    """Return sentences on how Keras runs the recurrent layers on the GPU targets; None if there are none."""
    network = workload.network
    gpus = tuple(target for target in targets if target.is_gpu)
    if not gpus or not isinstance(network, GraphNetwork):
        return None
    graph = network.graph
    total = sum(1 for _ in _cells(graph))
    if not total:
        return None
    where = " and ".join(str(target) for target in gpus)
    reasons = cudnn_reasons(graph, gpus[0])
    if not reasons:
        sentence = f"On {where} Keras {KERAS} runs the recurrent layers by cuDNN's kernels."
    else:
        sentence = (
            f"On {where} Keras {KERAS} runs {len(reasons)} of {total} recurrent layers step by step, without cuDNN: "
            f"{' '.join(reasons)}"
        )
    if any(target.execution == "xla" for target in gpus) and turns_xla_off(graph):
        sentence += " XLA cannot compile layers that may call cuDNN, so Keras leaves it out: choose execution=graph."
    if len(reasons) < total and any(layer.options.get("mask_zero") for layer in graph.layers):
        sentence += " With a mask it stops at samples that are not padded on the right, as random ones are not."
    return sentence


def _cells(graph: Graph) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield name, kind and options of every recurrent layer, including those inside a Bidirectional."""
    for layer in graph.layers:
        if layer.shares is None:
            kind, options = _inner(layer)
            if kind in RECURRENT:
                yield layer.name, kind, options


def _inner(layer: Layer) -> tuple[str, Mapping[str, Any]]:
    if layer.kind != "Bidirectional":
        return layer.kind, layer.options
    inner = layer.options["layer"]
    return inner["class_name"], inner.get("config", {})


def _obstacles(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the obstacles in a layer's options that Keras checks before it tries cuDNN; its defaults all pass."""
    if kind not in CELLS:
        return ["has no cuDNN path in Keras"]
    obstacles = []
    if (activation := options.get("activation", "tanh")) != "tanh":
        obstacles.append(f"has {activation or 'linear'} for its activation, where cuDNN has tanh only")
    if (gates := options.get("recurrent_activation", "sigmoid")) != "sigmoid":
        obstacles.append(f"has {gates or 'linear'} gates (recurrent_activation), where cuDNN has sigmoid only")
    if not options.get("use_bias", True):
        obstacles.append("has no bias (use_bias), which cuDNN needs")
    if options.get("unroll", False):
        obstacles.append("is unrolled (unroll)")
    if kind == "GRU" and not options.get("reset_after", True):
        obstacles.append("applies its reset gate before the product (reset_after), where cuDNN does so after it")
    if options.get("use_cudnn", "auto") is False:
        obstacles.append("is told to do without (use_cudnn)")
    return obstacles


def _own_obstacles(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return obstacles that apply only when the layer runs; XLA is left out for it all the same."""
    return ["drops recurrent values (recurrent_dropout)"] if kind in CELLS and options.get("recurrent_dropout") else []
