"""A network's layers as a GPU sees them: which kernels each needs, on what shapes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from core.architecture.counts import LayerCount, shapes
from core.architecture.graph import Graph, Layer
from core.families import Network
from core.families.graph_network import GraphNetwork
from core.families.mlp import Mlp

LayerClass = Literal[
    "dense", "convolution", "depthwise", "attention", "recurrent", "normalisation", "elementwise", "embedding",
    "pooling",
]  # fmt: skip


@dataclass(frozen=True)
class Kernels:
    """Kernels of one kind of layer: in inference, in training forward, and for each gradient (0: as in inference).

    ``traversals`` counts how often its values are read or written beside once in and once out: forward, gradient.
    ``fusible``: XLA makes few of the many, as of a normalisation.
    """

    kind: LayerClass
    kernels: int
    variables: int = 2
    fusible: bool = False
    training_kernels: int = 0
    gradient_kernels: int = 0
    traversals: tuple[int, int] = (0, 0)


# Kernels in TensorFlow's graph execution with Keras 3's layers, counted in traced graphs (tests compare them). A
# convolution calls cuDNN once; batch and layer normalisation are moments and scaling in element-wise operations, each
# of which reads and writes all values; attention is four Dense layers, two batched products, a softmax and the
# transposes between.
LAYER_NORM = Kernels("normalisation", 10, fusible=True, traversals=(6, 10))
KINDS: dict[str, Kernels] = {
    "Dense": Kernels("dense", 1),
    "Embedding": Kernels("embedding", 1, variables=1),
    **{f"Conv{rank}D": Kernels("convolution", 1) for rank in (1, 2, 3)},
    **{f"Conv{rank}DTranspose": Kernels("convolution", 1) for rank in (1, 2)},
    **{f"DepthwiseConv{rank}D": Kernels("depthwise", 1) for rank in (1, 2)},
    **{f"SeparableConv{rank}D": Kernels("depthwise", 2, variables=3) for rank in (1, 2)},
    "BatchNormalization": Kernels(
        "normalisation", 7, fusible=True, training_kernels=16, gradient_kernels=12, traversals=(5, 10)
    ),
    "LayerNormalization": LAYER_NORM,
    "GroupNormalization": LAYER_NORM,
    "RMSNormalization": Kernels("normalisation", 6, variables=1, fusible=True),
    "UnitNormalization": Kernels("normalisation", 5, variables=0, fusible=True),
    "MultiHeadAttention": Kernels("attention", 17, variables=8),
    "GroupQueryAttention": Kernels("attention", 19, variables=8),
    "Attention": Kernels("attention", 5, variables=1),
    "AdditiveAttention": Kernels("attention", 7, variables=1),
    **{name: Kernels("recurrent", 4, variables=3) for name in ("LSTM", "GRU", "SimpleRNN")},
    "Bidirectional": Kernels("recurrent", 9, variables=6),
    **{name: Kernels("elementwise", 0) for name in ("Flatten", "Reshape", "Identity")},
}
ACTIVATION_KERNELS = {"linear": 0, "gelu": 5, "silu": 2, "swish": 2, "hard_silu": 4, "hard_swish": 4, "mish": 3}
"""Element-wise kernels of an activation function; 1 where it is not named here."""
STEP_KERNELS = 2
"""Launches a time step of a recurrent layer in cuDNN's standard algorithm: a product and the gates."""


@dataclass(frozen=True)
class Shaped:
    """One layer: its ``count`` for one sample, its ``kernels``, and how many values (``inputs``) it reads.

    ``passes`` are its element-wise kernels beside its own (bias, activation), ``sequential`` the time steps of a
    recurrent layer, else 1.
    """

    count: LayerCount
    kernels: Kernels
    inputs: int
    passes: int
    sequential: int

    def touched(self, batch: int) -> float:
        """Parameters that one pass reads or writes: an embedding looks up the rows of its batch alone."""
        used = self.count.activations * batch if self.kernels.kind == "embedding" else math.inf
        return min(self.count.parameters, used)


@lru_cache(maxsize=256)
def shaped_layers(network: Network) -> tuple[Shaped, ...]:
    """Every layer, first to last. Where only counts are known (user code), classes follow from them."""
    if isinstance(network, GraphNetwork):
        return _of_graph(network)
    found, inputs = [], math.prod(network.input_shape)
    last = len(network.layers) - 1
    for number, count in enumerate(network.layers):
        options = {"activation": "relu" if number < last else "linear"}
        found.append(_shaped(count, _guessed(count, isinstance(network, Mlp)), options, inputs, 1))
        inputs = count.activations
    return tuple(found)


def _of_graph(network: GraphNetwork) -> tuple[Shaped, ...]:
    graph = network.graph
    sizes = {name: math.prod(shape) for name, shape in shapes(graph).items()}
    steps = {name: shape[0] for name, shape in shapes(graph).items()}
    found = []
    for layer, count in zip(graph.layers, network.layers, strict=True):
        options = _options(graph, layer)
        kernels = KINDS.get(layer.kind, _other(layer.kind))
        inputs = sum(sizes[name] for name in set(layer.inputs))
        sequential = steps[layer.inputs[0]] if kernels.kind == "recurrent" else 1
        found.append(_shaped(count, kernels, options, inputs, sequential))
    return tuple(found)


def _options(graph: Graph, layer: Layer) -> Any:
    return next(each.options for each in graph.layers if each.name == layer.shares) if layer.shares else layer.options


def _other(kind: str) -> Kernels:
    return Kernels("pooling" if "Pool" in kind else "elementwise", 1)


def _guessed(count: LayerCount, mlp: bool) -> Kernels:
    """Without the layers' kinds: more than a multiply-add for each parameter means that weights are shared."""
    if not count.parameters:
        return _other("")
    if mlp or count.forward_flops <= 2 * count.parameters:
        return KINDS["Dense"] if count.forward_flops else _other("")
    return KINDS["Conv2D"]


def _shaped(count: LayerCount, kernels: Kernels, options: Any, inputs: int, sequential: int) -> Shaped:
    product = kernels.kind in ("dense", "convolution", "depthwise")
    biased = product and options.get("use_bias", True)
    active = ACTIVATION_KERNELS.get(options.get("activation") or "linear", 1) if product else 0
    own = dataclasses.replace(
        kernels,
        kernels=kernels.kernels + (STEP_KERNELS * sequential if kernels.kind == "recurrent" else 0),
        variables=kernels.variables if not product or biased else kernels.variables - 1,
    )
    return Shaped(count, own, inputs, int(biased) + active, sequential)
