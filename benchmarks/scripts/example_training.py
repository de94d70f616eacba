"""The script whose job is the shipped example: a perceptron on made-up digits, as many people train first.

python -m core run -- benchmarks/scripts/example_training.py
"""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
x, y = rng.random((6_000, 784), dtype=np.float32), rng.integers(0, 10, 6_000)
hidden = [layers.Dense(512, activation="relu") for _ in range(2)]
model = keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
model.fit(x, y, batch_size=32, epochs=30, validation_split=0.1, verbose=2)
