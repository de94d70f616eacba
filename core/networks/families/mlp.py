"""Multi-layer perceptron: Dense layers with ReLU, written ``inputs-hidden-…-classes`` as in 784-512-512-10."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from core.base.schema import UserError
from core.networks.architecture.counts import LayerCount
from core.networks.families.base import MAX_CLASSES, Choice, Network, classes_choice

MAX_DEPTH = 64
MIN_WIDTH, MAX_WIDTH = 8, 16_384
MAX_INPUTS = 65_536

Width = Annotated[int, Field(ge=MIN_WIDTH, le=MAX_WIDTH)]


class Mlp(Network):
    """Perceptron of ``hidden`` Dense layers with ReLU, then a Dense output of ``outputs`` units (1: sigmoid, more:
    logits).
    """

    title: ClassVar[str] = "Multi-layer perceptron"
    notation: ClassVar[str] = "Inputs, hidden layers, classes."
    presets: ClassVar[tuple[str, ...]] = (
        "784-128-10", "784-512-512-10", "128-256-128-1", "1000-512-256-2", "100-50-10",
    )  # fmt: skip
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("depth", "Depth (hidden layers)", 1, MAX_DEPTH, 2, "Number of Dense layers before the output layer."),
        Choice("width", "Width (units per layer)", MIN_WIDTH, MAX_WIDTH, 512, "Units in each hidden layer."),
        Choice("inputs", "Inputs (features)", 1, MAX_INPUTS, 784, "Values in one sample; 784 is a 28 × 28 image."),
        classes_choice(),
    )

    family: Literal["mlp"] = "mlp"
    inputs: Annotated[int, Field(ge=1, le=MAX_INPUTS)]
    hidden: Annotated[tuple[Width, ...], Field(min_length=1, max_length=MAX_DEPTH)]
    outputs: Annotated[int, Field(ge=1, le=MAX_CLASSES)]

    @property
    def name(self) -> str:
        if len(self.hidden) > 4 and len(set(self.hidden)) == 1:
            return f"{self.inputs}-{self.hidden[0]}x{len(self.hidden)}-{self.outputs}"
        return "-".join(str(units) for units in (self.inputs, *self.hidden, self.outputs))

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.hidden)

    @property
    def width(self) -> int:
        """Units of the first hidden layer."""
        return self.hidden[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def classes(self) -> int:
        return self.outputs

    @property
    def from_logits(self) -> bool:
        return self.outputs > 1

    @property
    def layers(self) -> tuple[LayerCount, ...]:
        sizes = (self.inputs, *self.hidden, self.outputs)
        return tuple(
            LayerCount(
                name=f"dense_{i + 1}",
                parameters=(m + 1) * n,
                forward_flops=2 * m * n + n,  # multiply-adds, then the bias
                weight_gradient_flops=2 * m * n + n,
                input_gradient_flops=0 if i == 0 else 2 * m * n,
                activations=n,
            )
            for i, (m, n) in enumerate(pairwise(sizes))
        )

    @classmethod
    def from_name(cls, name: str) -> Self:
        sizes: list[int] = []
        try:
            for part in name.strip().split("-"):
                units, times, repeat = part.partition("x")
                count = int(repeat) if times else 1
                if not 1 <= count <= MAX_DEPTH:
                    raise ValueError
                sizes += [int(units)] * count
            if len(sizes) < 3:
                raise ValueError
        except ValueError:
            raise UserError(
                f"“{name}” is no multi-layer perceptron; write inputs, hidden layers and classes joined by dashes, "
                f"as in {cls.presets[1]} or 784-512x8-10."
            ) from None
        return cls(inputs=sizes[0], hidden=tuple(sizes[1:-1]), outputs=sizes[-1])

    @classmethod
    def from_choices(cls, values: dict[str, int]) -> Self:
        depth = values["depth"]
        if not 1 <= depth <= MAX_DEPTH:
            raise UserError(f"Depth is {depth}; it must lie between 1 and {MAX_DEPTH} hidden layers.")
        return cls(inputs=values["inputs"], hidden=(values["width"],) * depth, outputs=values["classes"])

    def build(self, keras: Any) -> Any:
        stack = [keras.layers.Input(shape=self.input_shape)]
        stack += [keras.layers.Dense(units, activation="relu") for units in self.hidden]
        # float32 output: with mixed precision a float16 loss would overflow (Keras' own advice)
        final = "sigmoid" if self.outputs == 1 else None
        stack.append(keras.layers.Dense(self.outputs, activation=final, dtype="float32"))
        return keras.Sequential(stack)
