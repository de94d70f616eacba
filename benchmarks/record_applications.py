"""Record the graphs of keras.applications, so that their shapes and counts are known without a framework.

    python -m benchmarks.record_applications [NAME …]

Writes core/data/applications.json.gz and shows, for each network, that parameters, output shape and every layer's
options equal those of what Keras builds at the recorded size, at two others and for another number of classes. With
names, only these are shown and nothing is written.
"""

from __future__ import annotations

import argparse
import gzip
import inspect
import json
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras

from core.networks.architecture.counts import count, output_shape
from core.networks.architecture.graph import Graph
from core.networks.architecture.read import read_architecture
from core.networks.architecture.text import dump
from core.networks.families.applications import (
    CHANNELS,
    DEFAULT_SIZE,
    FILE,
    MAX_SIZE,
    NAMES,
    RECORDED_OUTPUTS,
    SIZE_STEP,
    Application,
    recorded,
)

OTHER_OUTPUTS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="networks to compare, without writing")
    chosen = parser.parse_args().names
    offered = {name for name, value in vars(keras.applications).items() if inspect.isfunction(value)}
    if offered != set(NAMES):
        raise SystemExit(f"NAMES in core/networks/families/applications.py differs from Keras: {offered ^ set(NAMES)}")
    if not chosen:
        record()
    wrong = [name for name in chosen or NAMES if not compare(name)]
    print(f"{len(wrong)} of {len(chosen or NAMES)} differ from Keras", *wrong)
    raise SystemExit(bool(wrong))


def record() -> None:
    networks = {
        name: {"graph": dump(read(built(name, DEFAULT_SIZE, RECORDED_OUTPUTS))), "smallest": smallest_image(name)}
        for name in NAMES
    }
    text = json.dumps({"keras": keras.__version__, "networks": networks}, separators=(",", ":"), ensure_ascii=False)
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{FILE}: {FILE.stat().st_size / 1000:.0f} kB")


def built(name: str, image: int, outputs: int) -> Any:
    keras.backend.clear_session()
    make = getattr(keras.applications, name)
    return make(weights=None, input_shape=(image, image, CHANNELS), classes=outputs, classifier_activation=None)


def read(model: Any) -> Graph:
    return read_architecture(model.to_json().encode(), public=False)


def layers_of(graph: Graph) -> list[tuple[str, Any]]:
    """Return the kinds and options of all layers; names depend on what the process built before."""
    return [(layer.kind, layer.options) for layer in graph.layers]


def smallest_image(name: str) -> int:
    """Return the smallest multiple of 32 that the constructor accepts."""
    for image in range(SIZE_STEP, MAX_SIZE + 1, SIZE_STEP):
        try:
            built(name, image, OTHER_OUTPUTS)
        except ValueError:
            continue
        return image
    raise ValueError(f"{name} takes no image of up to {MAX_SIZE}")


def compare(name: str) -> bool:
    """Check that parameters, output shape and layers equal Keras's at three sizes, and print the result."""
    sizes = [(DEFAULT_SIZE, 1000), (256, OTHER_OUTPUTS), (recorded(name).smallest, OTHER_OUTPUTS)]
    alike = True
    for image, outputs in sizes:
        network, model = Application(application=name, image=image, outputs=outputs), built(name, image, outputs)
        ours = network.parameters, output_shape(network.graph), layers_of(network.graph)
        theirs = model.count_params(), tuple(model.output.shape[1:]), layers_of(read(model))
        alike &= ours == theirs
        flops = sum(layer.forward_flops for layer in count(network.graph))
        verdict = "equal" if ours == theirs else f"DIFFERS from Keras's {theirs[0]:,}, {theirs[1]} or its layers"
        print(f"{network.name:26} {ours[0]:13,} parameters {flops / 1e9:8.2f} GFLOP forward  {verdict}", flush=True)
    return alike


if __name__ == "__main__":
    main()
