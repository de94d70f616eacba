"""A network's layers as a GPU runs them: the kernels of each layer and their shapes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from core.networks.architecture.counts import LayerCount, shapes
from core.networks.architecture.graph import Graph, Layer
from core.networks.architecture.rule import Shape
from core.networks.families import Network
from core.networks.families.graph_network import GraphNetwork
from core.networks.families.mlp import Mlp

LayerClass = Literal[
    "dense", "convolution", "pointwise", "winograd", "grouped", "depthwise", "attention", "recurrent", "normalisation",
    "elementwise", "embedding", "pooling",
]  # fmt: skip
"""Classes of layers. Convolutions are split by cuDNN's treatment: ``pointwise`` (1 × 1) is a matrix product;
``winograd`` (3 × 3, stride 1) needs fewer multiplications in float32 (Lavin and Gray 2016); ``grouped`` and
``depthwise`` sum few values; ``convolution`` is any other.
"""
WINOGRAD_CHANNELS = 16
"""Input channels from which cuDNN chooses its Winograd kernels; the first layer of a network has fewer."""


@dataclass(frozen=True)
class Kernels:
    """Kernels of one kind of layer: in inference, in the training forward pass, and per gradient (0: as in inference).

    ``traversals`` counts additional reads or writes of the layer's values, besides once in and once out: in inference,
    in the training forward pass, for its gradients together; ``fused`` is the same if the layer is one kernel (XLA, a
    fused build). ``fusible``: XLA and a fused build merge the kernels into one, as for a normalisation.
    """

    kind: LayerClass
    kernels: int
    variables: int = 2
    fusible: bool = False
    training_kernels: int = 0
    gradient_kernels: int = 0
    traversals: tuple[float, float, float] = (0, 0, 0)
    fused: tuple[float, float, float] = (0, 0, 0)


# Kernels in TensorFlow's graph execution with Keras 3's layers, counted in traced graphs (tests compare them). A
# convolution calls cuDNN once; batch and layer normalisation are moments and scaling in element-wise operations, each
# of which reads and writes all values; attention is four Dense layers, two batched products, a softmax and the
# transposes between them.
LAYER_NORM = Kernels("normalisation", 10, fusible=True, traversals=(6, 6, 10), fused=(0, 0, 1))
KINDS: dict[str, Kernels] = {
    "Dense": Kernels("dense", 1),
    "Embedding": Kernels("embedding", 1, variables=1),
    **{f"Conv{rank}D": Kernels("convolution", 1) for rank in (1, 2, 3)},
    **{f"Conv{rank}DTranspose": Kernels("convolution", 1) for rank in (1, 2)},
    **{f"DepthwiseConv{rank}D": Kernels("depthwise", 1) for rank in (1, 2)},
    **{f"SeparableConv{rank}D": Kernels("depthwise", 2, variables=3) for rank in (1, 2)},
    "BatchNormalization": Kernels(
        "normalisation",
        7,
        fusible=True,
        training_kernels=16,
        gradient_kernels=12,
        traversals=(2, 5, 10),
        fused=(0, 1, 1),
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
    "Dropout": Kernels("elementwise", 0, training_kernels=4, gradient_kernels=1),
}
ACTIVATION_KERNELS = {"linear": 0, "gelu": 5, "silu": 2, "swish": 2, "hard_silu": 4, "hard_swish": 4, "mish": 3}
"""Element-wise kernels of an activation function; 1 for those not named here."""
CONVOLUTIONS = frozenset({"convolution", "pointwise", "winograd", "grouped", "depthwise"})
PRODUCTS = CONVOLUTIONS | {"dense"}
STEP_KERNELS = 2
"""Launches per time step of a recurrent layer in cuDNN's standard algorithm: a product and the gates."""


@dataclass(frozen=True)
class Product:
    """A layer's matrix product for one sample, or the one to which its convolution amounts: ``groups`` of rows ×
    columns results, each a sum of ``depth`` products over ``channels`` of the input. For attention it is the product of
    one projection.
    """

    rows: int
    columns: int
    depth: int
    channels: int
    groups: int = 1


@dataclass(frozen=True)
class Shaped:
    """One layer: its ``count`` for one sample, its ``kernels``, and the number of values (``inputs``) that it reads.

    ``passes`` are its element-wise kernels besides its own (bias, activation), ``sequential`` the time steps of a
    recurrent layer, else 1. ``biased``: one of the passes adds a bias; ``activated``: one is more than that.
    ``product`` is None if shapes are unknown or nothing is multiplied.
    """

    count: LayerCount
    kernels: Kernels
    inputs: int
    passes: int
    sequential: int
    biased: bool
    activated: bool
    product: Product | None = None

    def touched(self, batch: int) -> float:
        """Return the parameters that one pass reads or writes; an embedding looks up only the rows of its batch."""
        used = self.count.activations * batch if self.kernels.kind == "embedding" else math.inf
        return min(self.count.parameters, used)


@lru_cache(maxsize=256)
def shaped_layers(network: Network) -> tuple[Shaped, ...]:
    """Return every layer, first to last. If only counts are known (user code), the classes are derived from them."""
    if isinstance(network, GraphNetwork):
        return _of_graph(network)
    layers, inputs = [], math.prod(network.input_shape)
    last = len(network.layers) - 1
    for number, count in enumerate(network.layers):
        options = {"activation": "relu" if number < last else "linear"}
        kernels = _guessed(count, isinstance(network, Mlp))
        product = Product(1, count.activations, inputs, inputs) if kernels.kind == "dense" else None
        layers.append(_shaped(count, kernels, options, inputs, 1, product))
        inputs = count.activations
    return tuple(layers)


def _of_graph(network: GraphNetwork) -> tuple[Shaped, ...]:
    graph = network.graph
    places = shapes(graph)
    sizes = {name: math.prod(shape) for name, shape in places.items()}
    steps = {name: shape[0] for name, shape in places.items()}
    layers = []
    for layer, count in zip(graph.layers, network.layers, strict=True):
        options = _options(graph, layer)
        kernels = KINDS.get(layer.kind, _other(layer.kind))
        inputs = sum(sizes[name] for name in set(layer.inputs))
        sequential = steps[layer.inputs[0]] if kernels.kind == "recurrent" else 1
        input_shape, output_shape = places[layer.inputs[0]], places[layer.name]
        product = _product(layer.kind, options, input_shape, output_shape)
        if kernels.kind == "convolution" and product is not None:
            kernels = dataclasses.replace(kernels, kind=_convolution(options, input_shape[-1], product))
        layers.append(_shaped(count, kernels, options, inputs, sequential, product))
    return tuple(layers)


def _product(kind: str, options: Any, input_shape: Shape, output_shape: Shape) -> Product | None:
    """Return the product of a Dense layer, attention or convolution.

    A transposed convolution is the gradient of one.
    """
    if kind == "Dense":
        return Product(math.prod(output_shape[:-1]), output_shape[-1], input_shape[-1], input_shape[-1])
    if kind == "MultiHeadAttention":
        inner = options["num_heads"] * options["key_dim"]
        return Product(math.prod(input_shape[:-1]), inner, input_shape[-1], input_shape[-1])
    if kind.startswith(("Conv", "DepthwiseConv")) and "Transpose" not in kind:
        groups = input_shape[-1] if kind.startswith("Depthwise") else options.get("groups", 1)
        channels = input_shape[-1] // groups
        depth = _window(options, len(input_shape) - 1) * channels
        return Product(math.prod(output_shape[:-1]), output_shape[-1] // groups, depth, channels, groups)
    if kind.startswith("Conv"):
        columns = _window(options, len(input_shape) - 1) * output_shape[-1]
        return Product(math.prod(input_shape[:-1]), columns, input_shape[-1], input_shape[-1])
    return None


def _window(options: Any, rank: int) -> int:
    size = options.get("kernel_size", 1)
    return int(size) ** rank if isinstance(size, int) else math.prod(size)


def _convolution(options: Any, channels: int, product: Product) -> LayerClass:
    if product.groups > 1:
        return "grouped"
    size, strides, dilation = (
        set(value) if isinstance(value := options.get(name, 1), tuple | list) else {value}
        for name in ("kernel_size", "strides", "dilation_rate")
    )
    if size == {1}:
        return "pointwise"
    plain = size == {3} and strides == {1} and dilation == {1}
    return "winograd" if plain and channels >= WINOGRAD_CHANNELS else "convolution"


def _options(graph: Graph, layer: Layer) -> Any:
    return next(each.options for each in graph.layers if each.name == layer.shares) if layer.shares else layer.options


def _other(kind: str) -> Kernels:
    return Kernels("pooling" if "Pool" in kind else "elementwise", 1)


def _guessed(count: LayerCount, mlp: bool) -> Kernels:
    """Guess the kernels without the layers' kinds: more than one multiply-add per parameter means shared weights."""
    if not count.parameters:
        return _other("")
    if mlp or count.forward_flops <= 2 * count.parameters:
        return KINDS["Dense"] if count.forward_flops else _other("")
    return KINDS["Conv2D"]


def _shaped(
    count: LayerCount, kernels: Kernels, options: Any, inputs: int, sequential: int, product: Product | None = None
) -> Shaped:
    multiplies = kernels.kind in PRODUCTS
    biased = multiplies and options.get("use_bias", True)
    active = ACTIVATION_KERNELS.get(options.get("activation") or "linear", 1) if multiplies else 0
    own = dataclasses.replace(
        kernels,
        kernels=kernels.kernels + (STEP_KERNELS * sequential if kernels.kind == "recurrent" else 0),
        variables=kernels.variables if not multiplies or biased else kernels.variables - 1,
    )
    return Shaped(count, own, inputs, int(biased) + active, sequential, biased, bool(active), product)
