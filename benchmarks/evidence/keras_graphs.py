"""Networks of keras_notebook_steps.csv whose strings only name them, written out from the programs that define them.

Left out of them, each less than 1 % of the parameters: position and segment embeddings (one addition each), BERT's
pooler, and the masks of PixelCNN's kernels. Both inputs of the translating transformer are one, of as many tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.networks.architecture.graph import INPUT, Graph, Layer, chain
from core.networks.families.applications import Application

IMAGENET = (224, 224, 3)
IMAGENET_CLASSES = 1000
BENCHMARK_CLASSES = 1001
"""Classes of tf_cnn_benchmarks, which has one more, for the background."""


class Stack:
    """Layers added one after the other; each addition returns the new layer's name."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    @property
    def last(self) -> str:
        return self.layers[-1].name if self.layers else INPUT

    def add(self, kind: str, *sources: str, **options: Any) -> str:
        """Add a layer after ``sources``, or after the previous one."""
        name = f"{kind.lower()}_{len(self.layers) + 1}"
        self.layers.append(Layer(name, kind, options, sources or (self.last,)))
        return name

    def graph(self, *shape: int, vocabulary: int | None = None) -> Graph:
        return Graph(shape, tuple(self.layers), self.last, vocabulary)


def _plain(shape: tuple[int, ...], *layers: tuple[str, dict[str, Any]]) -> Graph:
    named = [Layer(f"{kind.lower()}_{n}", kind, options) for n, (kind, options) in enumerate(layers, 1)]
    return Graph(shape, chain(*named), named[-1].name)


def _conv(filters: int, size: int, strides: int = 1, padding: str = "same", kind: str = "Conv2D") -> Any:
    options = {"filters": filters, "kernel_size": size, "strides": strides, "padding": padding, "activation": "relu"}
    return kind, options


def _pool(size: int, strides: int) -> Any:
    return "MaxPooling2D", {"pool_size": size, "strides": strides}


def _dense(units: int, activation: str = "relu") -> Any:
    return "Dense", {"units": units, "activation": activation}


DROPOUT: Any = ("Dropout", {"rate": 0.5})


def alexnet() -> Graph:
    """Build the network of tf_cnn_benchmarks's alexnet_model.py."""
    return _plain(
        (227, 227, 3), _conv(64, 11, 4, "valid"), _pool(3, 2), _conv(192, 5), _pool(3, 2), _conv(384, 3),
        _conv(384, 3), _conv(256, 3), _pool(3, 2), ("Flatten", {}), _dense(4096), DROPOUT, _dense(4096), DROPOUT,
        _dense(BENCHMARK_CLASSES, "softmax"),
    )  # fmt: skip


def lenet() -> Graph:
    """Build the network of tf_cnn_benchmarks's lenet_model.py, which has ImageNet's classes."""
    return _plain(
        (28, 28, 3), _conv(32, 5), _pool(2, 2), _conv(64, 5), _pool(2, 2), ("Flatten", {}), _dense(512),
        _dense(BENCHMARK_CLASSES, "softmax"),
    )  # fmt: skip


def unet_like() -> Graph:
    """Build the segmentation network for pets of Chollet, Deep Learning with Python, 2nd edition, chapter 9."""
    down = [_conv(f, 3, s) for f in (64, 128, 256) for s in (2, 1)]
    up = [_conv(f, 3, s, kind="Conv2DTranspose") for f in (256, 128, 64) for s in (1, 2)]
    last = ("Conv2D", {"filters": 3, "kernel_size": 3, "padding": "same", "activation": "softmax"})
    return _plain((200, 200, 3), ("Rescaling", {"scale": 1 / 255}), *down, *up, last)


def pixelcnn() -> Graph:
    """Build the network of Foster, Generative Deep Learning, 2nd edition, chapter 5, with plain for masked
    convolutions.
    """
    stack = Stack()
    conv = {"padding": "same", "activation": "relu"}
    at = stack.add("Conv2D", filters=128, kernel_size=7, **conv)
    for _ in range(5):
        stack.add("Conv2D", filters=64, kernel_size=1, activation="relu")
        stack.add("Conv2D", filters=64, kernel_size=3, **conv)
        end = stack.add("Conv2D", filters=128, kernel_size=1, activation="relu")
        at = stack.add("Add", at, end)
    for _ in range(2):
        stack.add("Conv2D", filters=128, kernel_size=1, activation="relu")
    stack.add("Conv2D", filters=4, kernel_size=1, activation="softmax")
    return stack.graph(16, 16, 1)


def _normalised_conv(stack: Stack, filters: int, size: int, strides: int, after: str, relu: bool = True) -> str:
    stack.add("Conv2D", after, filters=filters, kernel_size=size, strides=strides, padding="same", use_bias=False)
    end = stack.add("BatchNormalization")
    return stack.add("ReLU") if relu else end


def _basic_blocks(stack: Stack, at: str, stages: Sequence[tuple[int, int]], channels: int) -> str:
    """Add residual blocks of two 3x3 convolutions (He et al. 2015); stages after the first begin with a stride of 2."""
    for number, (filters, blocks) in enumerate(stages):
        for block in range(blocks):
            stride = 2 if number and not block else 1
            end = _normalised_conv(stack, filters, 3, stride, at)
            end = _normalised_conv(stack, filters, 3, 1, end, relu=False)
            changed = stride > 1 or channels != filters
            short = _normalised_conv(stack, filters, 1, stride, at, relu=False) if changed else at
            stack.add("Add", short, end)
            at, channels = stack.add("ReLU"), filters
    return at


def resnet18() -> Graph:
    """Build ResNet-18 by table 1 of He et al. 2015."""
    stack = Stack()
    _normalised_conv(stack, 64, 7, 2, INPUT)
    at = stack.add("MaxPooling2D", pool_size=3, strides=2, padding="same")
    _basic_blocks(stack, at, ((64, 2), (128, 2), (256, 2), (512, 2)), 64)
    stack.add("GlobalAveragePooling2D")
    stack.add("Dense", units=BENCHMARK_CLASSES, activation="softmax")
    return stack.graph(*IMAGENET)


def resnet_of_30_blocks() -> Graph:
    """Build the network of hideyukiinada/benchmark: 10 basic blocks each of 64, 128 and 256 filters for CIFAR-10."""
    stack = Stack()
    at = _normalised_conv(stack, 64, 3, 1, INPUT)
    _basic_blocks(stack, at, ((64, 10), (128, 10), (256, 10)), 64)
    stack.add("GlobalAveragePooling2D")
    stack.add("Dense", units=10, activation="softmax")
    return stack.graph(32, 32, 3)


def resnet50_with_a_dense_map() -> Graph:
    """Build the network of awslabs/keras-apache-mxnet's script: ResNet50 without its top, and Dense1000 on its last
    map.
    """
    known = Application(application="ResNet50").graph
    layers = known.layers[: [layer.kind for layer in known.layers].index("GlobalAveragePooling2D")]
    top = Layer("dense_map", "Dense", {"units": IMAGENET_CLASSES, "activation": "softmax"}, (layers[-1].name,))
    return Graph((256, 256, 3), (*layers, top), top.name)


def inception_v3() -> Graph:
    """Build keras.applications' network at its own size of 299, which is no multiple of 32."""
    return replace(Application(application="InceptionV3").graph, input_shape=(299, 299, 3))


def _attend(stack: Stack, query: str, value: str, heads: int, key_dim: int, dropout: float = 0.0, **norm: Any) -> str:
    """Add attention, its residual connection and normalisation."""
    rate = {"dropout": dropout} if dropout else {}
    end = stack.add("MultiHeadAttention", query, value, num_heads=heads, key_dim=key_dim, **rate)
    end = stack.add("Dropout", rate=dropout) if dropout else end
    stack.add("Add", query, end)
    return stack.add("LayerNormalization", **norm)


def _feed(stack: Stack, at: str, inner: int, width: int, activation: str = "relu", dropout: float = 0.0) -> str:
    """Add two Dense layers, their residual connection and normalisation."""
    stack.add("Dense", at, units=inner, activation=activation)
    end = stack.add("Dense", units=width)
    end = stack.add("Dropout", rate=dropout) if dropout else end
    stack.add("Add", at, end)
    return stack.add("LayerNormalization")


def translator() -> Graph:
    """Build the translator of Chollet, Deep Learning with Python, 2nd edition, chapter 11: one encoder, one decoder
    layer.
    """
    stack, words = Stack(), 15_000
    source = stack.add("Embedding", INPUT, input_dim=words, output_dim=256)
    encoded = _feed(stack, _attend(stack, source, source, 8, 256), 2048, 256)
    target = stack.add("Embedding", INPUT, input_dim=words, output_dim=256)
    at = _attend(stack, target, target, 8, 256)
    _feed(stack, _attend(stack, at, encoded, 8, 256), 2048, 256)
    stack.add("Dropout", rate=0.5)
    stack.add("Dense", units=words, activation="softmax")
    return stack.graph(20, vocabulary=words)


def gpt() -> Graph:
    """Build the GPT of Foster, Generative Deep Learning, 2nd edition, chapter 9."""
    stack, words = Stack(), 10_000
    at = stack.add("Embedding", input_dim=words, output_dim=256)
    end = stack.add("MultiHeadAttention", at, at, num_heads=2, key_dim=256)
    end = stack.add("Dropout", rate=0.1)
    stack.add("Add", at, end)
    _feed(stack, stack.add("LayerNormalization"), 256, 256, dropout=0.1)
    stack.add("Dense", units=words, activation="softmax")
    return stack.graph(80, vocabulary=words)


def bert_classifier() -> Graph:
    """Build bert-base-cased (Devlin et al. 2019; 28,996 word pieces) below a pool and three Dense layers."""
    stack, words = Stack(), 28_996
    stack.add("Embedding", input_dim=words, output_dim=768)
    stack.add("LayerNormalization")
    at = stack.add("Dropout", rate=0.1)
    for _ in range(12):
        at = _feed(stack, _attend(stack, at, at, 12, 64, dropout=0.1), 3072, 768, "gelu", dropout=0.1)
    stack.add("GlobalMaxPooling1D")
    stack.add("Dense", units=128, activation="relu")
    stack.add("Dense", units=32, activation="relu")
    stack.add("Dense", units=1, activation="sigmoid")
    return stack.graph(128, vocabulary=words)


BY_HAND: Mapping[str, Callable[[], Graph]] = {
    r"AlexNet": alexnet,
    r"LeNet": lenet,
    r"ResNet18 ": resnet18,
    r"InceptionV3 ": inception_v3,
    r"ResNet50 include_top=False 256x256x3 \+ Dense1000": resnet50_with_a_dense_map,
    r"ResNet v1 basic: conv64-BN, 10 basic blocks": resnet_of_30_blocks,
    r"U-net-like: ": unet_like,
    r"PixelCNN: ": pixelcnn,
    r"Transformer enc\+dec: ": translator,
    r"GPT: ": gpt,
    r"bert-base-cased ": bert_classifier,
}
"""Builders by the beginning of a row's ``architecture``."""
