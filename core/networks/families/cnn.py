"""Convolutional networks for square images, plain or residual, and the known small ones: LeNet-5, ResNet-8 to 110."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field

from core.base.schema import UserError
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.families.base import MAX_CLASSES, Choice, classes_choice
from core.networks.families.graph_network import SizedNetwork, number_pattern, outputs_layer, parts_of

MIN_IMAGE, MAX_IMAGE = 8, 512
MAX_CHANNELS = 64
MAX_DEPTH = 64
MIN_WIDTH, MAX_WIDTH = 4, 2_048
MAX_KERNEL = 11
SMALLEST_MAP = 7  # images are halved while their side stays this long, as in networks for 224 × 224 (He et al. 2016)

Layout = Literal["plain", "residual", "lenet5"]
Pooling = Literal["none", "max", "average", "strides"]
NAME = number_pattern(
    r"cnn-{image}x(?P=image)x{channels}-{width}x{depth}-k{kernel}"
    r"(-(?P<layout>residual))?(-(?P<batch_norm>bn))?(-(?P<pooling>max|average|strides))?-{outputs}"
)
RESNET = number_pattern(r"resnet{number}(-{image}x(?P=image)x{channels}-{outputs})?")
RESNET_DEPTHS = {3: 8, 9: 20, 15: 32, 21: 44, 27: 56, 54: 110}
"""Blocks and number of the published networks: He et al. 2016, section 4.2 (20 to 110), and MLPerf Tiny's ResNet-8."""
RESNET_SIZES: dict[str, Any] = {"layout": "residual", "width": 16, "kernel": 3, "batch_norm": True} | {
    "pooling": "strides"
}
HALVED = {"pool_size": (2, 2)}
RESNET_DATA = {"image": 32, "channels": 3, "outputs": 10}
LENET5: dict[str, Any] = {
    "layout": "lenet5", "image": 28, "channels": 1, "depth": 2, "width": 6, "kernel": 5, "batch_norm": False,
    "pooling": "average", "outputs": 10,
}  # fmt: skip


class Cnn(SizedNetwork):
    """Network of ``depth`` blocks of convolutions with ReLU, then global average pooling and a Dense output.

    A plain block is one convolution (same padding), a residual block two with a shortcut, projected by a 1 × 1
    convolution if the shape changes (He et al. 2016, option B); residual networks begin with one more convolution.
    ``width`` filters double each time the image is halved. With ``pooling``, blocks are spread evenly over as many
    stages as the image can be halved to a side of 7 at least: max and average pooling end a stage, strides begin every
    stage but the first. ``lenet5`` is LeCun et al. 1998 in today's layers: tanh, average pooling, Dense layers of 120
    and 84.
    """

    title: ClassVar[str] = "Convolutional network"
    notation: ClassVar[str] = (
        "Image, filters × blocks, kernel (k), residual blocks, batch normalisation (bn), pooling, classes; or a "
        "network known by name."
    )
    presets: ClassVar[tuple[str, ...]] = (
        "lenet5", "cnn-28x28x1-32x2-k3-max-10", "resnet8", "resnet20", "resnet8-28x28x1-10",
        "cnn-32x32x3-64x6-k3-bn-max-10", "cnn-64x64x3-32x8-k3-residual-bn-strides-100",
    )  # fmt: skip
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("depth", "Depth (blocks)", 1, MAX_DEPTH, 2, "Blocks of one convolution (plain) or two (residual)."),
        Choice("width", "Width (filters)", MIN_WIDTH, MAX_WIDTH, 32, "Filters of the first block; they double each "
               "time the image is halved."),
        Choice("layout", "Blocks", 0, 1, 0, "Plain or with a shortcut around two convolutions, as in ResNets.",
               ("plain", "residual")),
        Choice("kernel", "Kernel size", 1, MAX_KERNEL, 3, "Side of the square kernel."),
        Choice("image", "Image size", MIN_IMAGE, MAX_IMAGE, 28, "Side of the square image."),
        Choice("channels", "Channels", 1, MAX_CHANNELS, 1, "1 for grey images, 3 for colour."),
        Choice("batch_norm", "Batch normalisation", 0, 1, 0, "After every convolution.", ("no", "yes")),
        Choice("pooling", "Pooling", 0, 3, 1, "What halves the image.", get_args(Pooling)),
        classes_choice(),
    )  # fmt: skip

    family: Literal["cnn"] = "cnn"
    layout: Layout = "plain"
    image: Annotated[int, Field(ge=MIN_IMAGE, le=MAX_IMAGE)]
    channels: Annotated[int, Field(ge=1, le=MAX_CHANNELS)]
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    width: Annotated[int, Field(ge=MIN_WIDTH, le=MAX_WIDTH)]
    kernel: Annotated[int, Field(ge=1, le=MAX_KERNEL)]
    batch_norm: bool
    pooling: Pooling
    outputs: Annotated[int, Field(ge=1, le=MAX_CLASSES)]

    def check_sizes(self) -> None:
        if self.layout == "lenet5" and self.model_dump() != {"family": "cnn", **LENET5}:
            raise ValueError("LeNet-5 has sizes of its own; choose plain blocks for others")

    @property
    def name(self) -> str:
        if self.layout == "lenet5":
            return "lenet5"
        data = f"{self.image}x{self.image}x{self.channels}"
        if self.depth in RESNET_DEPTHS and all(getattr(self, name) == value for name, value in RESNET_SIZES.items()):
            usual = all(getattr(self, name) == value for name, value in RESNET_DATA.items())
            return f"resnet{RESNET_DEPTHS[self.depth]}" + ("" if usual else f"-{data}-{self.outputs}")
        parts = ["cnn", data, f"{self.width}x{self.depth}", f"k{self.kernel}"]
        parts += ["residual"] * (self.layout == "residual") + ["bn"] * self.batch_norm
        parts += [self.pooling] * (self.pooling != "none")
        return "-".join([*parts, str(self.outputs)])

    @property
    def graph(self) -> Graph:
        layers = tuple(_lenet5() if self.layout == "lenet5" else self._blocks())
        end = () if self.layout == "lenet5" else (Layer("pool", "GlobalAveragePooling2D", {}, (layers[-1].name,)),)
        before = (*layers, *end)
        last = outputs_layer(self.outputs, before[-1].name)
        return Graph((self.image, self.image, self.channels), (*before, last), last.name)

    @property
    def stages(self) -> tuple[int, ...]:
        """Number of blocks in each stage; filters double from one stage to the next."""
        halvings = 0
        while self.pooling != "none" and self.image >> (halvings + 1) >= SMALLEST_MAP:
            halvings += 1
        count = min(self.depth, halvings + 1)
        return tuple((self.depth * (i + 1)) // count - (self.depth * i) // count for i in range(count))

    def _blocks(self) -> Iterator[Layer]:
        source, filters_in, number = INPUT, self.channels, 0
        if self.layout == "residual":
            for layer in self._convolution("stem", source, self.width):
                source = layer.name
                yield layer
            filters_in = self.width
        for stage, blocks in enumerate(self.stages):
            filters = min(self.width << stage, MAX_WIDTH)
            for block in range(blocks):
                number += 1
                stride = 2 if self.pooling == "strides" and stage and not block else 1
                make = self._residual if self.layout == "residual" else self._plain
                for layer in make(f"block_{number}", source, filters_in, filters, stride):
                    source = layer.name
                    yield layer
                filters_in = filters
            if self.pooling in ("max", "average"):
                kind = "MaxPooling2D" if self.pooling == "max" else "AveragePooling2D"
                yield Layer(f"pool_{stage + 1}", kind, HALVED, (source,))
                source = f"pool_{stage + 1}"

    def _plain(self, name: str, source: str, _: int, filters: int, stride: int) -> Iterator[Layer]:
        return self._convolution(name, source, filters, stride)

    def _residual(self, name: str, source: str, filters_in: int, filters: int, stride: int) -> Iterator[Layer]:
        first = list(self._convolution(f"{name}_a", source, filters, stride))
        second = list(self._convolution(f"{name}_b", first[-1].name, filters, relu=False))
        yield from (*first, *second)
        shortcut = source
        if stride > 1 or filters != filters_in:
            projected = list(self._convolution(f"{name}_shortcut", source, filters, stride, kernel=1, relu=False))
            shortcut = projected[-1].name
            yield from projected
        yield Layer(f"{name}_add", "Add", {}, (second[-1].name, shortcut))
        yield Layer(f"{name}_relu", "ReLU", {}, (f"{name}_add",))

    def _convolution(
        self, name: str, source: str, filters: int, stride: int = 1, kernel: int | None = None, relu: bool = True
    ) -> Iterator[Layer]:
        """Yield a convolution with the chosen normalisation and activation."""
        size = kernel or self.kernel
        options: dict[str, Any] = {"filters": filters, "kernel_size": (size, size), "padding": "same"}
        options |= {"strides": (stride, stride)} if stride > 1 else {}
        options |= {"use_bias": False} if self.batch_norm else {}
        options |= {"activation": "relu"} if relu and not self.batch_norm else {}
        yield Layer(f"{name}_conv", "Conv2D", options, (source,))
        if self.batch_norm:
            yield Layer(f"{name}_norm", "BatchNormalization", {}, (f"{name}_conv",))
            if relu:
                yield Layer(f"{name}_act", "ReLU", {}, (f"{name}_norm",))

    @classmethod
    def from_name(cls, name: str) -> Self:
        if name.strip().lower() in ("lenet5", "lenet-5"):
            return cls(**LENET5)
        if RESNET.fullmatch(name.strip().lower()):
            return cls._resnet(parts_of(name, RESNET, "ResNet", "resnet20"))
        example = f"{cls.presets[0]}, {cls.presets[3]} or {cls.presets[1]}"
        parts: dict[str, Any] = parts_of(name, NAME, "convolutional network", example)
        parts["batch_norm"] = "batch_norm" in parts
        return cls.model_validate({"pooling": "none", **parts})

    @classmethod
    def _resnet(cls, parts: dict[str, str]) -> Self:
        depths = {number: depth for depth, number in RESNET_DEPTHS.items()}
        number = int(parts.pop("number"))
        if number not in depths:
            known = ", ".join(f"resnet{n}" for n in depths)
            raise UserError(f"ResNet-{number} is not known for small images; accepted are {known}.")
        return cls.model_validate(RESNET_DATA | RESNET_SIZES | parts | {"depth": depths[number]})


def _lenet5() -> Iterator[Layer]:
    same, tanh = {"padding": "same"}, {"activation": "tanh"}
    yield Layer("conv_1", "Conv2D", {"filters": 6, "kernel_size": (5, 5), **same, **tanh})
    yield Layer("pool_1", "AveragePooling2D", HALVED, ("conv_1",))
    yield Layer("conv_2", "Conv2D", {"filters": 16, "kernel_size": (5, 5), **tanh}, ("pool_1",))
    yield Layer("pool_2", "AveragePooling2D", HALVED, ("conv_2",))
    yield Layer("flatten", "Flatten", {}, ("pool_2",))
    yield Layer("dense_1", "Dense", {"units": 120, **tanh}, ("flatten",))
    yield Layer("dense_2", "Dense", {"units": 84, **tanh}, ("dense_1",))
