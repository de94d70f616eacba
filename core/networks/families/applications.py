"""Networks of ``keras.applications`` by name, with fresh weights, for images of any size.

Shapes and counts come from ``core/data/applications.json.gz``, which benchmarks/record_applications.py records from
each constructor's model, so that they are known without a framework; a worker builds with the constructor itself.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from core.base.schema import UserError
from core.networks.architecture.graph import Graph, Layer
from core.networks.architecture.text import load
from core.networks.families.base import MAX_CLASSES, Choice, classes_choice
from core.networks.families.graph_network import GraphNetwork

FILE = Path(__file__).parents[2] / "data" / "applications.json.gz"
NAMES = (
    "ConvNeXtTiny", "ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtXLarge",
    "DenseNet121", "DenseNet169", "DenseNet201",
    "EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5",
    "EfficientNetB6", "EfficientNetB7",
    "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2S",
    "EfficientNetV2M", "EfficientNetV2L",
    "InceptionResNetV2", "InceptionV3",
    "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small",
    "NASNetLarge", "NASNetMobile",
    "ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2",
    "VGG16", "VGG19", "Xception",
)  # fmt: skip
BY_LOWER = {name.lower(): name for name in NAMES}
DEFAULT = "MobileNetV2"
SIZE_STEP, MAX_SIZE, DEFAULT_SIZE = 32, 512, 224
"""The networks halve an image five times; other sizes would change the padding recorded in the file."""
RECORDED_OUTPUTS = 1009
"""Classes in the recorded graphs: a number that occurs nowhere else in them, so that it marks their last layers."""
DEFAULT_OUTPUTS = 1000
CHANNELS = 3
PATTERN = re.compile(r"(?P<name>[a-z0-9]{1,40})(@(?P<image>\d{1,6}))?(:(?P<outputs>\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Recorded:
    """A recorded network: its graph at 224 × 224 with 1009 classes, and the smallest image accepted, in pixels per
    side.
    """

    graph: Graph
    smallest: int


class Application(GraphNetwork):
    """Network ``application`` for ``image`` × ``image`` × 3 values, ``outputs`` classes (1: sigmoid, more: logits)."""

    title: ClassVar[str] = "Known network (keras.applications)"
    notation: ClassVar[str] = "Network, @ size of the image unless 224, : classes unless 1000."
    presets: ClassVar[tuple[str, ...]] = (
        "MobileNetV2@96:10", "MobileNetV2", "ResNet50", "EfficientNetB0", "VGG16", "DenseNet121",
    )  # fmt: skip
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("application", "Network", 0, len(NAMES) - 1, NAMES.index(DEFAULT), "With fresh weights.", NAMES),
        Choice("image", "Image size", SIZE_STEP, MAX_SIZE, 96, "Side of the square image in colour, a "
               "multiple of 32."),
        classes_choice(),
    )  # fmt: skip

    family: Literal["application"] = "application"
    application: str
    image: Annotated[int, Field(ge=SIZE_STEP, le=MAX_SIZE)] = DEFAULT_SIZE
    outputs: Annotated[int, Field(ge=1, le=MAX_CLASSES)] = DEFAULT_OUTPUTS

    @field_validator("application")
    @classmethod
    def _known(cls, value: str) -> str:
        if value.lower() not in BY_LOWER:
            raise ValueError(_unknown(value))
        return BY_LOWER[value.lower()]

    @field_validator("image")
    @classmethod
    def _whole_steps(cls, value: int) -> int:
        if value % SIZE_STEP:
            raise ValueError(f"The image size is {value}; accepted are multiples of {SIZE_STEP} up to {MAX_SIZE}.")
        return value

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        smallest = recorded(self.application).smallest
        if self.image < smallest:
            raise ValueError(
                f"{self.application} takes images of {smallest} × {smallest} at least; this is {self.image}."
            )
        return self

    @property
    def name(self) -> str:
        image = "" if self.image == DEFAULT_SIZE else f"@{self.image}"
        outputs = "" if self.outputs == DEFAULT_OUTPUTS else f":{self.outputs}"
        return f"{self.application}{image}{outputs}"

    @property
    def graph(self) -> Graph:
        known = recorded(self.application).graph
        layers = [_with_outputs(layer, self.outputs) for layer in known.layers]
        output = known.output
        if self.outputs == 1:
            layers.append(Layer("sigmoid", "Activation", {"activation": "sigmoid"}, (output,)))
            output = "sigmoid"
        return Graph((self.image, self.image, CHANNELS), tuple(layers), output)

    @classmethod
    def from_name(cls, name: str) -> Self:
        match = PATTERN.fullmatch(name.strip().lower())
        if match is None or match["name"] not in BY_LOWER:
            raise UserError(_unknown(name))
        return cls(
            application=match["name"],
            image=int(match["image"] or DEFAULT_SIZE),
            outputs=int(match["outputs"] or DEFAULT_OUTPUTS),
        )

    def build(self, keras: Any) -> Any:
        model = getattr(keras.applications, self.application)(
            weights=None,
            input_shape=(self.image, self.image, CHANNELS),
            classes=self.outputs,
            classifier_activation=None,
        )
        # float32 output: with mixed precision a float16 loss would overflow (Keras' own advice)
        final = "sigmoid" if self.outputs == 1 else "linear"
        return keras.Model(model.input, keras.layers.Activation(final, dtype="float32", name="float32")(model.output))


def _unknown(name: str) -> str:
    shown = "".join(c for c in name[:60] if c.isprintable())
    wanted = re.split("[@:]", shown.strip().lower())[0]
    near = [BY_LOWER[each] for each in get_close_matches(wanted, BY_LOWER, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"accepted are {', '.join(NAMES)}."
    return f"“{shown}” is none of keras.applications, written as in ResNet50 or ResNet50@96:10; {hint}"


def _with_outputs(layer: Layer, outputs: int) -> Layer:
    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(changed(each) for each in value)
        return outputs if value == RECORDED_OUTPUTS else value

    options = {key: changed(value) for key, value in layer.options.items()}
    return layer if options == layer.options else replace(layer, options=options)


@cache
def recorded(name: str) -> Recorded:
    """Return one recorded network. Raises KeyError for a name that is not in :data:`NAMES`."""
    data = recorded_networks()[name]
    return Recorded(load(data["graph"], public=False), data["smallest"])


@cache
def recorded_networks() -> Mapping[str, Any]:
    """Return the recorded networks by name, each with its graph as text, which is parsed on first use."""
    networks: Mapping[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))["networks"]
    return networks
