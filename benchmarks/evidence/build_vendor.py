"""The networks of published benchmarks as networks of ours, where ``keras.applications`` has another or none.

Layers as the benchmarks' own sources write them; an activation is a layer of its own after a normalisation. Dropout
stands in a network for training only, since these frameworks run nothing for it in inference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from benchmarks.evidence.keras_graphs import Stack
from core.networks.architecture.graph import Graph
from core.networks.architecture.text import dump
from core.networks.families import Network
from core.networks.families.applications import Application
from core.networks.families.own import Own

CLASSES = 1000
WORDS, SQUAD_STEPS, SPAN_ENDS = 30_522, 384, 2
"""BERT's vocabulary size, the sequence length of its fine-tuning, and the start and end of an answer for each token."""
BERT_SIZES = {"base": (12, 768), "large": (24, 1024), "distilled": (6, 768)}
HEAD = 64
BERT_DROPOUT, DENSE_DROPOUT = 0.1, 0.5
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
VIT_SIZES = {"tiny": (12, 192), "small": (12, 384), "base": (12, 768), "large": (24, 1024), "huge": (32, 1280)}
SQUEEZE = 16
UNET_FILTERS = (64, 128, 256, 512)


class _Layers(Stack):
    """Layers with the parts that several of these networks share."""

    def convolution(self, filters: int, kernel: int, stride: int = 1, source: str = "", **options: Any) -> str:
        """Add a convolution without bias and its batch normalisation."""
        sources = (source,) if source else ()
        same = {"strides": stride, "padding": "same", "use_bias": False}
        self.add("Conv2D", *sources, filters=filters, kernel_size=kernel, **same, **options)
        return self.add("BatchNormalization")

    def relu(self) -> str:
        return self.add("Activation", activation="relu")

    def classifier(self) -> str:
        self.add("GlobalAveragePooling2D")
        return self.add("Dense", units=CLASSES)


def _resnet(
    depth: int, *, image: int = 224, v1: bool = False, groups: int = 1, group_width: int = 64, squeeze: bool = False
) -> Graph:
    """Build a ResNet (He et al. 2016) or ResNeXt (Xie et al. 2017).

    The stride is in the 3 × 3 convolution (v1.5, as in torchvision and NVIDIA's code), or with ``v1`` in the first one.
    """
    net = _Layers()
    net.convolution(64, 7, 2)
    net.relu()
    net.add("MaxPooling2D", pool_size=3, strides=2, padding="same")
    wide = 1 if depth < 50 else 4
    for stage, blocks in enumerate(STAGES[depth]):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            start = kept = net.last
            if not block and (stage or wide > 1):
                kept = net.convolution(width * wide, 1, stride)
            if wide == 1:
                net.convolution(width, 3, stride, start)
                net.relu()
                net.convolution(width, 3)
            else:
                inner = width // 64 * group_width * groups
                net.convolution(inner, 1, stride if v1 else 1, start)
                net.relu()
                net.convolution(inner, 3, 1 if v1 else stride, groups=groups)
                net.relu()
                net.convolution(width * wide, 1)
            if squeeze:
                _squeeze(net, width * wide)
            net.add("Add", kept, net.last)
            net.relu()
    net.classifier()
    return net.graph(image, image, 3)


def _squeeze(net: _Layers, channels: int) -> None:
    """Add squeeze and excitation (Hu et al. 2018)."""
    source = net.last
    net.add("GlobalAveragePooling2D")
    net.add("Dense", units=channels // SQUEEZE, activation="relu")
    net.add("Dense", units=channels, activation="sigmoid")
    scale = net.add("Reshape", target_shape=(1, 1, channels))
    net.add("Multiply", source, scale)


def _vgg(depth: int, training: bool, *, normalised: bool = False) -> Graph:
    """Build VGG (Simonyan & Zisserman 2015) at 224 × 224."""
    net = _Layers()
    for stage, convolutions in enumerate(VGG[depth]):
        for _ in range(convolutions):
            active = "linear" if normalised else "relu"
            filters = min(512, 64 * 2**stage)
            net.add("Conv2D", filters=filters, kernel_size=3, padding="same", activation=active)
            if normalised:
                net.add("BatchNormalization")
                net.relu()
        net.add("MaxPooling2D")
    _dense_end(net, training)
    return net.graph(224, 224, 3)


def _alexnet(training: bool) -> Graph:
    """Build AlexNet as in tf_cnn_benchmarks, at 227 × 227."""
    net = _Layers()
    pooled = {"pool_size": 3, "strides": 2}
    net.add("Conv2D", filters=64, kernel_size=11, strides=4, activation="relu")
    net.add("MaxPooling2D", **pooled)
    net.add("Conv2D", filters=192, kernel_size=5, padding="same", activation="relu")
    net.add("MaxPooling2D", **pooled)
    for filters in (384, 384, 256):
        net.add("Conv2D", filters=filters, kernel_size=3, padding="same", activation="relu")
    net.add("MaxPooling2D", **pooled)
    _dense_end(net, training)
    return net.graph(227, 227, 3)


def _dense_end(net: _Layers, training: bool) -> None:
    net.add("Flatten")
    for _ in range(2):
        net.add("Dense", units=4096, activation="relu")
        if training:
            net.add("Dropout", rate=DENSE_DROPOUT)
    net.add("Dense", units=CLASSES)


def _unet(training: bool) -> Graph:
    """Build U-Net (Ronneberger et al. 2015) on 572 × 572 × 1 as in NVIDIA's code: unpadded, two classes per pixel."""
    net = _Layers()

    def twice(filters: int) -> str:
        for _ in range(2):
            net.add("Conv2D", filters=filters, kernel_size=3, activation="relu")
        return net.last

    kept, side = [], 572
    for filters in UNET_FILTERS:
        side -= 4
        kept.append((twice(filters), side))
        net.add("MaxPooling2D")
        side //= 2
    twice(2 * UNET_FILTERS[-1])
    side -= 4
    if training:
        net.add("Dropout", rate=DENSE_DROPOUT)
    for filters, (source, large) in zip(reversed(UNET_FILTERS), reversed(kept), strict=True):
        wider = {"kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}
        up, side = net.add("Conv2DTranspose", filters=filters, **wider), 2 * side
        cut = (large - side) // 2
        cropped = net.add("Cropping2D", source, cropping=((cut, cut), (cut, cut)))
        net.add("Concatenate", up, cropped)
        twice(filters)
        side -= 4
    net.add("Conv2D", filters=2, kernel_size=1)
    return net.graph(572, 572, 1)


def _bert(size: str, training: bool, *, steps: int = SQUAD_STEPS, outputs: int = SPAN_ENDS) -> Graph:
    """Build BERT (Devlin et al. 2019) with a head for every token, by default SQuAD's.

    ELECTRA's discriminator (Clark et al. 2020) is the same. Left out are the learnt position and segment embeddings
    (0.4 % of the weights of the base size), which no layer of a graph can hold, and ELECTRA's search for the answer's
    end in five beams.
    """
    depth, width = BERT_SIZES[size]
    net = _Layers()

    def dropped() -> str:
        return net.add("Dropout", rate=BERT_DROPOUT) if training else net.last

    net.add("Embedding", input_dim=WORDS, output_dim=width)
    net.add("LayerNormalization")
    source = dropped()
    for _ in range(depth):
        heads = {"num_heads": width // HEAD, "key_dim": HEAD, "dropout": BERT_DROPOUT if training else 0.0}
        net.add("MultiHeadAttention", source, source, **heads)
        net.add("Add", source, dropped())
        source = net.add("LayerNormalization")
        net.add("Dense", units=4 * width, activation="gelu")
        net.add("Dense", units=width)
        net.add("Add", source, dropped())
        source = net.add("LayerNormalization")
    net.add("Dense", units=outputs)
    return net.graph(steps, vocabulary=WORDS)


def _vit(size: str, patch: int, image: int) -> Graph:
    """Build a vision transformer (Dosovitskiy et al. 2021) over its patches, without the class token."""
    depth, width = VIT_SIZES[size]
    net = _Layers()
    net.add("Conv2D", filters=width, kernel_size=patch, strides=patch)
    source = net.add("Reshape", target_shape=((image // patch) ** 2, width))
    for _ in range(depth):
        normal = net.add("LayerNormalization", source)
        net.add("MultiHeadAttention", normal, normal, num_heads=max(1, width // HEAD), key_dim=HEAD)
        source = net.add("Add", source, net.last)
        net.add("LayerNormalization")
        net.add("Dense", units=4 * width, activation="gelu")
        net.add("Dense", units=width)
        source = net.add("Add", source, net.last)
    net.add("LayerNormalization")
    net.add("GlobalAveragePooling1D")
    net.add("Dense", units=CLASSES)
    return net.graph(image, image, 3)


def _application(name: str, image: int, training: bool) -> Graph:
    """Build a network of keras.applications at any size; the convolutions themselves pad, as in the original."""
    graph = replace(Application(application=name).graph, input_shape=(image, image, 3))
    gone = {"ZeroPadding2D"} if training else {"ZeroPadding2D", "Dropout"}
    padded = {layer.name for layer in graph.layers if layer.kind == "ZeroPadding2D"}
    instead: dict[str, str] = {}
    layers = []
    for layer in graph.layers:
        inputs = tuple(instead.get(each, each) for each in layer.inputs)
        if layer.kind in gone:
            instead[layer.name] = inputs[0]
            continue
        same = {"padding": "same"} if padded & set(layer.inputs) else {}
        layers.append(replace(layer, inputs=inputs, options={**layer.options, **same}))
    return Graph(graph.input_shape, tuple(layers), instead.get(graph.output, graph.output))


ALIKE: Mapping[str, Callable[[], Graph]] = {
    **{f"ResNet-{depth}": partial(_resnet, depth) for depth in STAGES},
    **{f"ResNet-{depth} v1": partial(_resnet, depth, v1=True) for depth in (50, 152)},
    "ResNeXt-101-32x4d": partial(_resnet, 101, groups=32, group_width=4),
    "SE-ResNeXt-101-32x4d": partial(_resnet, 101, groups=32, group_width=4, squeeze=True),
}
"""Networks by name that are the same in training and in inference."""
BY_MODE: Mapping[str, Callable[[bool], Graph]] = {
    **{f"VGG-{depth}": partial(_vgg, depth) for depth in VGG},
    **{f"VGG-{depth} BN": partial(_vgg, depth, normalised=True) for depth in VGG},
    "AlexNet": _alexnet,
    "Inception-v3": partial(_application, "InceptionV3", 299),
    "EfficientNet-B0": partial(_application, "EfficientNetB0", 224),
    "EfficientNet-B4": partial(_application, "EfficientNetB4", 380),
    "U-Net 572": _unet,
    **{f"BERT-{size}": partial(_bert, size) for size in BERT_SIZES},
}
"""Networks by name; the argument is True for training."""
NAMES = (*ALIKE, *BY_MODE)
TRANSFORMERS = tuple(f"BERT-{size}" for size in BERT_SIZES)


@cache
def vision_transformer(size: str, patch: int, image: int) -> Network:
    """Build a vision transformer of a size of :data:`VIT_SIZES`."""
    return Own(architecture=dump(_vit(size, patch, image)), label=f"ViT-{size} {patch} @{image}")


@cache
def encoder(size: str, training: bool, steps: int, outputs: int) -> Network:
    """Build a BERT of a size of :data:`BERT_SIZES` for ``steps`` tokens with ``outputs`` values for each."""
    return Own(architecture=dump(_bert(size, training, steps=steps, outputs=outputs)), label=f"BERT-{size} @{steps}")


@cache
def resnet(depth: int, image: int) -> Network:
    """Build a ResNet v1.5 for square images with sides of ``image`` pixels."""
    return Own(architecture=dump(_resnet(depth, image=image)), label=f"ResNet-{depth} @{image}")


@cache
def application(name: str, image: int, training: bool) -> Network:
    """Build a network of keras.applications for square images with sides of ``image`` pixels."""
    return Own(architecture=dump(_application(name, image, training)), label=f"{name} @{image}")


@cache
def network(name: str, training: bool) -> Network:
    """Build the network of that name, one of :data:`NAMES`, or raise KeyError."""
    graph = ALIKE[name]() if name in ALIKE else BY_MODE[name](training)
    return Own(architecture=dump(graph), label=name)
