"""Transformer encoders for classifying sequences of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field

from core.networks.architecture.graph import Graph, Layer
from core.networks.families.base import MAX_CLASSES, Choice, classes_choice
from core.networks.families.graph_network import SizedNetwork, number_pattern, outputs_layer, parts_of

MAX_DEPTH = 64
MIN_WIDTH, MAX_WIDTH = 8, 8_192
MAX_HEADS = 128
MAX_SEQUENCE = 8_192
MAX_FEED_FORWARD = 8
MIN_VOCABULARY, MAX_VOCABULARY = 2, 1_000_000

Norm = Literal["pre", "post"]
NAME = number_pattern(
    r"transformer-{width}x{depth}-h{heads}-s{sequence}-f{feed_forward}-v{words}(-(?P<norm>post))?-{outputs}"
)
BERT: dict[str, Any] = {"sequence": 128, "feed_forward": 4, "words": 30_522, "norm": "post", "outputs": 2}
BERT_SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "base": (12, 768, 12)}
"""Layers, d_model and heads (Turc et al. 2019; base: Devlin et al. 2019)."""


class Transformer(SizedNetwork):
    """Network of token embedding, ``depth`` encoder layers of ``width`` (d_model), mean over positions, Dense output.

    An encoder layer is self-attention of ``heads`` heads of size d_model / heads, and two Dense layers, the inner one
    ``feed_forward`` times as wide, with GELU; each with its residual. ``norm`` places layer normalisation: ``post``
    after the residual (Vaswani et al. 2017), ``pre`` before each part and once at the end (Xiong et al. 2020). There is
    no dropout, and no position embedding, which would cost one addition; the BERT-like networks leave out its position
    and segment embeddings and its pooler.
    """

    title: ClassVar[str] = "Transformer encoder"
    notation: ClassVar[str] = (
        "d_model × encoder layers, heads (h), sequence length (s), feed-forward ratio (f), vocabulary (v), classes; or "
        "a network of BERT's sizes."
    )
    presets: ClassVar[tuple[str, ...]] = (
        "transformer-64x1-h2-s64-f4-v10000-2",
        "transformer-128x2-h4-s128-f4-v20000-2",
        "transformer-256x4-h4-s128-f4-v20000-10",
        "bert-tiny-like", "bert-mini-like", "bert-small-like", "bert-base-like",
    )  # fmt: skip
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("depth", "Depth (encoder layers)", 1, MAX_DEPTH, 2, "Encoder layers."),
        Choice("width", "Width (d_model)", MIN_WIDTH, MAX_WIDTH, 128, "Size of a token's vector, a multiple of the "
               "heads."),
        Choice("heads", "Heads", 1, MAX_HEADS, 4, "Attention heads; each has size d_model / heads."),
        Choice("sequence", "Sequence length", 1, MAX_SEQUENCE, 128, "Positions in one sample."),
        Choice("feed_forward", "Feed-forward ratio", 1, MAX_FEED_FORWARD, 4, "Width of the feed-forward part's inner "
               "layer, in d_model."),
        Choice("vocabulary", "Vocabulary", MIN_VOCABULARY, MAX_VOCABULARY, 20_000, "Different tokens.", field="words"),
        Choice("norm", "Layer normalisation", 0, 1, 0, "Before each part or after its residual.", get_args(Norm)),
        classes_choice(2),
    )  # fmt: skip

    family: Literal["transformer"] = "transformer"
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    width: Annotated[int, Field(ge=MIN_WIDTH, le=MAX_WIDTH)]
    heads: Annotated[int, Field(ge=1, le=MAX_HEADS)]
    sequence: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]
    feed_forward: Annotated[int, Field(ge=1, le=MAX_FEED_FORWARD)]
    words: Annotated[int, Field(ge=MIN_VOCABULARY, le=MAX_VOCABULARY)]
    norm: Norm = "pre"
    outputs: Annotated[int, Field(ge=1, le=MAX_CLASSES)]

    def check_sizes(self) -> None:
        check_heads(self.width, self.heads)

    @property
    def name(self) -> str:
        for size, (depth, width, heads) in BERT_SIZES.items():
            values = BERT | {"depth": depth, "width": width, "heads": heads}
            if all(getattr(self, name) == value for name, value in values.items()):
                return f"bert-{size}-like"
        sizes = f"{self.width}x{self.depth}-h{self.heads}-s{self.sequence}-f{self.feed_forward}-v{self.words}"
        return f"transformer-{sizes}{'-post' if self.norm == 'post' else ''}-{self.outputs}"

    @property
    def graph(self) -> Graph:
        layers = [Layer("embedding", "Embedding", {"input_dim": self.words, "output_dim": self.width})]
        for number in range(1, self.depth + 1):
            layers += self._encoder(f"layer_{number}", layers[-1].name)
        if self.norm == "pre":
            layers.append(Layer("norm", "LayerNormalization", {}, (layers[-1].name,)))
        layers.append(Layer("mean", "GlobalAveragePooling1D", {}, (layers[-1].name,)))
        layers.append(outputs_layer(self.outputs, "mean"))
        return Graph((self.sequence,), tuple(layers), "outputs", vocabulary=self.words)

    def _encoder(self, name: str, source: str) -> Iterator[Layer]:
        heads = {"num_heads": self.heads, "key_dim": self.width // self.heads}
        start = source
        if self.norm == "pre":
            yield Layer(f"{name}_norm_1", "LayerNormalization", {}, (source,))
            start = f"{name}_norm_1"
        yield Layer(f"{name}_attention", "MultiHeadAttention", heads, (start, start))
        yield Layer(f"{name}_add_1", "Add", {}, (source, f"{name}_attention"))
        middle = f"{name}_add_1"
        yield Layer(f"{name}_norm_{'2' if self.norm == 'pre' else '1'}", "LayerNormalization", {}, (middle,))
        normed = f"{name}_norm_{'2' if self.norm == 'pre' else '1'}"
        yield from feed_forward(name, normed, middle if self.norm == "pre" else normed, self.width, self.feed_forward)
        if self.norm == "post":
            yield Layer(f"{name}_norm_2", "LayerNormalization", {}, (f"{name}_add_2",))

    @classmethod
    def from_name(cls, name: str) -> Self:
        for size, (depth, width, heads) in BERT_SIZES.items():
            if name.strip().lower() == f"bert-{size}-like":
                return cls.model_validate(BERT | {"depth": depth, "width": width, "heads": heads})
        example = f"{cls.presets[1]}, or a name such as {cls.presets[4]}"
        return cls.model_validate(parts_of(name, NAME, "transformer encoder", example))


def check_heads(width: int, heads: int) -> None:
    """Raise ValueError unless d_model is a multiple of the heads."""
    if width % heads:
        below = width - width % heads
        near = f"{below} or {below + heads}" if below >= MIN_WIDTH else str(below + heads)
        raise ValueError(f"d_model {width} is no multiple of {heads} heads; {near} would be one")


def feed_forward(name: str, source: str, kept: str, width: int, ratio: int) -> Iterator[Layer]:
    """Yield a layer's two Dense layers, the inner one ``ratio`` times as wide, and their residual."""
    yield Layer(f"{name}_dense_1", "Dense", {"units": ratio * width, "activation": "gelu"}, (source,))
    yield Layer(f"{name}_dense_2", "Dense", {"units": width}, (f"{name}_dense_1",))
    yield Layer(f"{name}_add_2", "Add", {}, (kept, f"{name}_dense_2"))
