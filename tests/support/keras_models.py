"""A dozen models as people write them: their Keras files, and the results of our reader and builder.

Keras runs in a separate process (this file as a script), since no other test may find TensorFlow in pytest's.
"""

import base64
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.framework import answered


@dataclass(frozen=True)
class Written:
    """One model: its files, its size as Keras counts it, and the size of the one rebuilt from the JSON."""

    name: str
    text: bytes
    archive: bytes
    legacy: bytes
    parameters: int
    shape: tuple[int, ...]
    rebuilt: tuple[int, tuple[int, ...]]


def written() -> list[Written]:
    """Return every model, all from one process."""
    return [
        Written(
            name,
            text.encode(),
            *map(base64.b64decode, files),
            parameters,
            tuple(shape),
            (rebuilt[0], tuple(rebuilt[1])),
        )
        for name, text, files, parameters, shape, rebuilt in answered("-m", "tests.support.keras_models")
    ]


def _answer() -> list[tuple[Any, ...]]:
    import keras

    from core.networks.architecture.read import read_architecture
    from core.networks.families.graph_network import build

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in _models(keras):
            paths = [Path(folder, f"{name}.{ending}") for ending in ("keras", "h5")]
            for path in paths:
                model.save(path)
            rebuilt = build(keras, read_architecture(model.to_json().encode()))
            packed = [base64.b64encode(path.read_bytes()).decode() for path in paths]
            sizes = [(each.count_params(), each.output_shape[1:]) for each in (model, rebuilt)]
            found.append((name, model.to_json(), packed, *sizes[0], sizes[1]))
    return found


def _models(keras: Any) -> Iterator[tuple[str, Any]]:
    layers, model = keras.layers, keras.Model
    image, steps = layers.Input((16, 16, 3)), layers.Input((12, 8))
    tokens, flat = layers.Input((10,), dtype="int32"), layers.Input((20,))
    yield "sequential", keras.Sequential([flat, layers.Dense(8, "relu"), layers.Dropout(0.1), layers.Dense(3)])
    unbuilt = keras.Sequential([layers.Dense(4, "gelu"), layers.Dense(2, "softmax")])
    unbuilt.build((None, 6))
    yield "built later", unbuilt

    x = layers.Conv2D(4, 3, padding="same", kernel_regularizer="l2")(image)
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same", use_bias=False)(x))
    y = layers.ReLU()(layers.Add()([x, y])) + x
    y = layers.Concatenate()([layers.MaxPooling2D()(y), layers.AveragePooling2D(2)(y)])
    yield "residual", model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(y)))

    block = keras.Sequential([layers.Input((16, 16, 4)), layers.DepthwiseConv2D(3, padding="same"), layers.LeakyReLU()])
    yield "called twice", model(image, layers.Flatten()(block(block(x))))
    inner = model(steps, layers.LayerNormalization()(layers.Dense(8)(steps)))
    other = keras.Sequential([layers.Dense(8), layers.ELU()])
    outer = keras.Sequential([steps, other, layers.Conv1D(4, 3, strides=2), layers.GlobalMaxPooling1D()])
    yield "nested twice", model(steps, layers.Dense(2)(outer(inner(inner(steps)))))
    shared = layers.Dense(8, "tanh")
    yield "shared", model(steps, layers.Subtract()([shared(steps), shared(shared(steps))]))

    both = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(steps)
    both = layers.Bidirectional(layers.GRU(3), merge_mode="sum")(both)
    yield "both directions", model(steps, layers.Dense(1, "sigmoid")(both))
    yield (
        "recurrent",
        model(steps, layers.TimeDistributed(layers.Dense(4))(layers.SimpleRNN(6, return_sequences=True)(steps))),
    )

    words = layers.Embedding(100, 8)(tokens)
    attended = layers.MultiHeadAttention(2, 4)(words, words)
    attended = layers.MultiHeadAttention(2, 4, value_dim=3)(query=words, value=attended, key=words)
    attended = layers.LayerNormalization(epsilon=1e-6)(words + attended)
    yield "attention", model(tokens, layers.Dense(100)(attended))

    z = layers.Rescaling(1 / 255)(image)
    z = layers.SeparableConv2D(6, 3, activation="swish")(layers.ZeroPadding2D(((0, 1), (0, 1)))(z))
    z = layers.UpSampling2D()(layers.Conv2DTranspose(3, 2, strides=2)(z)) * 0.5
    yield "image to image", model(image, layers.Cropping2D(2)(z))
    gate = layers.Reshape((1, 1, 4))(layers.Dense(4, "sigmoid")(layers.GlobalAveragePooling2D()(x)))
    gated = layers.SpatialDropout2D(0.2)(layers.Multiply()([x, gate]))
    yield "gated", model(image, layers.Dense(5)(layers.Flatten()(layers.PReLU(shared_axes=[1, 2])(gated))))
    grouped = layers.GroupNormalization(2)(layers.Conv2D(4, 3, groups=2, dilation_rate=2)(x))
    yield "grouped", model(image, layers.Softmax()(layers.Permute((3, 1, 2))(grouped)))


if __name__ == "__main__":
    print(json.dumps(_answer()))
