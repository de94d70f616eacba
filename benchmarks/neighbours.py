"""Programs that disturb a measurement, planted as processes of their own.

Each ends by itself within a second or two once its parent is gone, so that none outlives a benchmark that was killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

HEAD = """
import os, random, time
parent = os.getppid()
random.seed(os.urandom(8))

def here():
    return os.getppid() == parent

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and here():
        pass

def rest(seconds):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and here():
        time.sleep(min(left, 1.0))
"""
ONE_CORE = """
while here():
    spin(1.0)
"""
BURSTS = """
def drawn():  # 0.2 to 10 s, evenly in the logarithm
    return 0.2 * 50 ** random.random()

while here():
    spin(drawn())
    rest(drawn())
"""
MEMORY = """
import numpy as np
source = np.ones(16_000_000)  # 128 MB: no cache holds it
target = np.empty_like(source)
while here():
    np.copyto(target, source)
"""
TRAINING = """
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy as np
model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
samples, labels = np.random.rand(2048, 32, 32, 3).astype("float32"), np.random.randint(0, 10, 2048)

class Leave(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if not here():
            os._exit(0)

while here():
    model.fit(samples, labels, batch_size=64, epochs=20, verbose=0, callbacks=[Leave()])
"""
PAGE_REPLAYED = """
while here():  # as the server and the browser were seen to take in turn: 0.25 and 0.2 s every 2 s
    spin(0.25)
    rest(0.1)
    spin(0.2)
    rest(1.45)
"""
OPEN_PAGE = "open page"  # a real page, from which the sweep is measured (benchmarks.equal_server)
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "one core": (ONE_CORE,),
    "bursts": (BURSTS,),
    "bursts on two cores": (BURSTS, BURSTS),
    "memory": (MEMORY,),
    "training": (TRAINING,),
    "page, replayed": (PAGE_REPLAYED,),
    OPEN_PAGE: (),
}
SETTLE_S = {"none": 0.0, OPEN_PAGE: 0.0, "training": 12.0}
"""Seconds until the neighbour does its work; ``BEGIN_S`` for those not named."""
BEGIN_S = 1.0


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Run that neighbour meanwhile.

    Raises:
        RuntimeError: The neighbour ended by itself.
    """
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", HEAD + script],
            env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for script in SCRIPTS[name]
    ]  # fmt: skip
    try:
        time.sleep(SETTLE_S.get(name, BEGIN_S))
        yield
        if any(process.poll() is not None for process in started):
            raise RuntimeError(f"The neighbour “{name}” ended before its sweep did.")
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
