"""Recurrent networks, LSTM or GRU, for classifying sequences of measurements."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from core.networks.architecture.graph import Graph, Layer, chain
from core.networks.families.base import MAX_CLASSES, Choice, classes_choice
from core.networks.families.graph_network import SizedNetwork, number_pattern, outputs_layer, parts_of

MAX_DEPTH = 16
MIN_WIDTH, MAX_WIDTH = 4, 8_192
MAX_SEQUENCE = 10_000
MAX_FEATURES = 65_536

Cell = Literal["lstm", "gru"]
NAME = number_pattern(r"(?P<cell>lstm|gru)-{width}x{depth}-{sequence}x{features}-{outputs}")


class Recurrent(SizedNetwork):
    """Network of ``depth`` layers of ``width`` units over a sequence; the last output goes to a Dense output.

    The layers have Keras's defaults (tanh, sigmoid gates, GRU that resets after the product), with which Keras calls
    cuDNN on a GPU.
    """

    title: ClassVar[str] = "Recurrent network"
    notation: ClassVar[str] = "Cell, units × layers, sequence length × features, classes."
    presets: ClassVar[tuple[str, ...]] = (
        "lstm-128x1-28x28-10",  # rows of 28 × 28 images
        "lstm-32x2-128x9-6",  # the sizes of UCI's human activity data
        "gru-32x2-128x9-6",
        "lstm-128x2-100x32-10",
        "gru-256x2-100x64-10",
        "lstm-512x2-50x128-10",
    )
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("cell", "Cell", 0, 1, 0, "Kind of recurrent layer.", ("LSTM", "GRU")),
        Choice("depth", "Depth (layers)", 1, MAX_DEPTH, 2, "Recurrent layers on top of each other."),
        Choice("width", "Width (units)", MIN_WIDTH, MAX_WIDTH, 128, "Units of each recurrent layer."),
        Choice("sequence", "Sequence length", 1, MAX_SEQUENCE, 100, "Time steps in one sample."),
        Choice("features", "Features", 1, MAX_FEATURES, 32, "Values at each time step."),
        classes_choice(),
    )

    family: Literal["recurrent"] = "recurrent"
    cell: Cell
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    width: Annotated[int, Field(ge=MIN_WIDTH, le=MAX_WIDTH)]
    sequence: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]
    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    outputs: Annotated[int, Field(ge=1, le=MAX_CLASSES)]

    @property
    def name(self) -> str:
        return f"{self.cell}-{self.width}x{self.depth}-{self.sequence}x{self.features}-{self.outputs}"

    @property
    def graph(self) -> Graph:
        kind = self.cell.upper()
        stack = []
        for number in range(1, self.depth + 1):
            more: dict[str, Any] = {"return_sequences": True} if number < self.depth else {}
            stack.append(Layer(f"{self.cell}_{number}", kind, {"units": self.width, **more}))
        layers = (*chain(*stack), outputs_layer(self.outputs, stack[-1].name))
        return Graph((self.sequence, self.features), layers, "outputs")

    @classmethod
    def from_name(cls, name: str) -> Self:
        return cls.model_validate(parts_of(name, NAME, "recurrent network", f"{cls.presets[0]} or {cls.presets[2]}"))
