"""Layers of decoders: Keras's own MultiHeadAttention, causal or beside a cache, and the last position."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def decoder_layers(keras: Any) -> dict[str, Any]:
    """Return the layer classes by kind; ``keras`` is passed in because only a worker may import it."""
    ops = keras.ops

    class CausalAttention(keras.layers.MultiHeadAttention):
        """Self-attention in which a position sees itself and those before it."""

        def build(self, x_shape: Any) -> None:
            super().build(x_shape, x_shape)

        def call(self, x: Any) -> Any:
            return super().call(x, x, use_causal_mask=True)

        def compute_mask(self, *_: Any, **__: Any) -> None:
            return None

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    class CachedAttention(keras.layers.MultiHeadAttention):
        """Attention of one new token to itself and to cached keys and values, (batch, tokens, heads, size of a head).

        Scores of cached and new keys are computed apart and share their softmax, so that the cache is read once and
        never copied.
        """

        def build(self, x_shape: Any, keys_shape: Any, values_shape: Any) -> None:  # noqa: ARG002
            super().build(x_shape, x_shape)

        def call(self, x: Any, keys: Any, values: Any) -> Any:
            query = self._query_dense(x) * self._key_dim**-0.5
            scores = [ops.einsum("bqhd,bkhd->bhqk", query, each) for each in (keys, self._key_dense(x))]
            weights = ops.softmax(ops.concatenate(scores, axis=-1), axis=-1)
            cached = keys.shape[1]
            summed = ops.einsum("bhqk,bkhd->bqhd", weights[..., :cached], values)
            summed += ops.einsum("bhqk,bkhd->bqhd", weights[..., cached:], self._value_dense(x))
            return self._output_dense(summed)

        def compute_mask(self, *_: Any, **__: Any) -> None:
            return None

        def compute_output_spec(self, x: Any, keys: Any, values: Any) -> Any:  # noqa: ARG002
            return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    class LastStep(keras.layers.Layer):
        """The values at the last position."""

        def call(self, x: Any) -> Any:
            return x[:, -1]

    return {each.__name__: each for each in (CausalAttention, CachedAttention, LastStep)}
