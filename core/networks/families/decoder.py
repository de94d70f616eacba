"""Causal decoders, which generate text token by token: the step that reads a prompt, and the one that adds a token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field

from core.base.schema import UserError
from core.networks.architecture.graph import Graph, Layer
from core.networks.families.base import Choice
from core.networks.families.graph_network import SizedNetwork, number_pattern, parts_of
from core.networks.families.transformer import (
    MAX_DEPTH,
    MAX_FEED_FORWARD,
    MAX_HEADS,
    MAX_SEQUENCE,
    MAX_VOCABULARY,
    MAX_WIDTH,
    MIN_VOCABULARY,
    MIN_WIDTH,
    check_heads,
    feed_forward,
)

Phase = Literal["prefill", "decode"]
NAME = number_pattern(
    r"decoder-{width}x{depth}-h{heads}-s{sequence}-f{feed_forward}-v{words}-(?P<phase>prefill|decode)"
)


class Decoder(SizedNetwork):
    """Causal decoder of ``depth`` pre-norm layers of ``width`` (d_model), as in GPT-2 (Radford et al. 2019).

    ``prefill`` reads a prompt of ``sequence`` tokens and returns the logits of the next one. ``decode`` reads one token
    beside the keys and values of ``sequence`` earlier ones, two inputs per layer of heads × d_model / heads values per
    token, and returns the logits of the next; writing the new token's keys and values into the cache, in place, is left
    to the loop around it. The output layer has a kernel of its own. There is no position embedding, which would cost
    one addition, and no dropout.
    """

    title: ClassVar[str] = "Token decoder"
    trains: ClassVar[bool] = False
    notation: ClassVar[str] = (
        "d_model × layers, heads (h), tokens in prompt or cache (s), feed-forward ratio (f), vocabulary (v); "
        "prefill reads a prompt, decode adds one token."
    )
    presets: ClassVar[tuple[str, ...]] = (
        "decoder-128x2-h4-s128-f4-v8000-prefill",
        "decoder-128x2-h4-s128-f4-v8000-decode",
        "decoder-256x4-h4-s256-f4-v16000-prefill",
        "decoder-256x4-h4-s256-f4-v16000-decode",
    )
    choices: ClassVar[tuple[Choice, ...]] = (
        Choice("phase", "Step", 0, 1, 0, "Read a prompt (prefill), or add a token to it (decode).", get_args(Phase)),
        Choice("depth", "Depth (layers)", 1, MAX_DEPTH, 2, "Decoder layers."),
        Choice("width", "Length (tokens)", 1, MAX_SEQUENCE, 128, "Tokens of the prompt, or in the cache.",
               field="sequence"),
        Choice("d_model", "Width (d_model)", MIN_WIDTH, MAX_WIDTH, 128, "Size of a token's vector, a multiple of the "
               "heads.", field="width"),
        Choice("heads", "Heads", 1, MAX_HEADS, 4, "Attention heads; each has size d_model / heads."),
        Choice("feed_forward", "Feed-forward ratio", 1, MAX_FEED_FORWARD, 4, "Width of the feed-forward part's inner "
               "layer, in d_model."),
        Choice("vocabulary", "Vocabulary", MIN_VOCABULARY, MAX_VOCABULARY, 8_000, "Different tokens.", field="words"),
    )  # fmt: skip

    family: Literal["decoder"] = "decoder"
    phase: Phase
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    sequence: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]
    width: Annotated[int, Field(ge=MIN_WIDTH, le=MAX_WIDTH)]
    heads: Annotated[int, Field(ge=1, le=MAX_HEADS)]
    feed_forward: Annotated[int, Field(ge=1, le=MAX_FEED_FORWARD)]
    words: Annotated[int, Field(ge=MIN_VOCABULARY, le=MAX_VOCABULARY)]

    def check_sizes(self) -> None:
        check_heads(self.width, self.heads)

    @property
    def tokens_per_sample(self) -> int:
        return self.sequence if self.phase == "prefill" else 1

    @property
    def name(self) -> str:
        sizes = f"{self.width}x{self.depth}-h{self.heads}-s{self.sequence}-f{self.feed_forward}-v{self.words}"
        return f"decoder-{sizes}-{self.phase}"

    @property
    def graph(self) -> Graph:
        layers = [Layer("embedding", "Embedding", {"input_dim": self.words, "output_dim": self.width})]
        for number in range(1, self.depth + 1):
            layers += self._layer(f"layer_{number}", layers[-1].name)
        layers.append(Layer("last", "LastStep", {}, (layers[-1].name,)))
        layers.append(Layer("norm", "LayerNormalization", {}, ("last",)))
        layers.append(Layer("outputs", "Dense", {"units": self.words, "use_bias": False}, ("norm",)))
        return Graph((self.tokens_per_sample,), tuple(layers), "outputs", vocabulary=self.words, caches=self._caches())

    def _caches(self) -> dict[str, tuple[int, ...]]:
        if self.phase == "prefill":
            return {}
        each = (self.sequence, self.heads, self.width // self.heads)
        return {f"layer_{n}_{what}": each for n in range(1, self.depth + 1) for what in ("keys", "values")}

    def _layer(self, name: str, source: str) -> Iterator[Layer]:
        heads = {"num_heads": self.heads, "key_dim": self.width // self.heads}
        yield Layer(f"{name}_norm_1", "LayerNormalization", {}, (source,))
        if self.phase == "prefill":
            yield Layer(f"{name}_attention", "CausalAttention", heads, (f"{name}_norm_1",))
        else:
            cached = (f"{name}_norm_1", f"{name}_keys", f"{name}_values")
            yield Layer(f"{name}_attention", "CachedAttention", heads, cached)
        yield Layer(f"{name}_add_1", "Add", {}, (source, f"{name}_attention"))
        yield Layer(f"{name}_norm_2", "LayerNormalization", {}, (f"{name}_add_1",))
        yield from feed_forward(name, f"{name}_norm_2", f"{name}_add_1", self.width, self.feed_forward)

    def with_length(self, length: int) -> Self:
        if self.phase == "decode":
            raise UserError(f"{self.name} takes one token per step, so its inputs have one length.")
        return super().with_length(length)

    @classmethod
    def from_name(cls, name: str) -> Self:
        return cls.model_validate(parts_of(name, NAME, "token decoder", cls.presets[0]))
