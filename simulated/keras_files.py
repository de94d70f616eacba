"""Files as Keras writes them, made without Keras: models as JSON, and .keras archives around them."""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any


def tensor(name: str, call: int = 0, output: int = 0) -> dict[str, Any]:
    """Return a call's argument, as Keras 3 writes it."""
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": [None, 1], "dtype": "float32", "keras_history": [name, call, output]},
    }


def called(*arguments: Any, **keywords: Any) -> dict[str, Any]:
    """Return one call of a layer; texts are names of layers, called once."""
    tensors = [tensor(each) if isinstance(each, str) else each for each in arguments]
    return {"args": tensors, "kwargs": keywords}


def layer(kind: str, name: str, *calls: Any, **config: Any) -> dict[str, Any]:
    """Return one layer of Keras 3, called on the layers of those names; for other calls, pass :func:`called`."""
    nodes = [called(each) if isinstance(each, str) else each for each in calls]
    return _written("keras.layers", kind, name, nodes, **{"dtype": "float32"} | config)


def source(*shape: int | None, name: str = "image", dtype: str = "float32") -> dict[str, Any]:
    """Return an InputLayer of that shape, without the batch."""
    return layer("InputLayer", name, batch_shape=[None, *shape], dtype=dtype, sparse=False, ragged=False)


def functional(*layers: Mapping[str, Any], name: str = "net", calls: Any = (), **config: Any) -> dict[str, Any]:
    """Return a functional model from first to last layer, unless ``input_layers`` and ``output_layers`` differ."""
    ends = {"input_layers": [layers[0]["name"], 0, 0], "output_layers": [layers[-1]["name"], 0, 0]}
    module, inside = "keras.src.models.functional", {"layers": list(layers), **ends, **config}
    return _written(module, "Functional", name, list(calls), **inside) | {"registered_name": "Functional"}


def sequential(*layers: Mapping[str, Any], name: str = "net", calls: Any = (), **config: Any) -> dict[str, Any]:
    return _written("keras", "Sequential", name, list(calls), layers=list(layers), **config)


def _written(module: str, kind: str, name: str, nodes: list[Any], **config: Any) -> dict[str, Any]:
    config = {"name": name, "trainable": True} | config
    return {
        "module": module, "class_name": kind, "config": config, "registered_name": None, "name": name,
        "inbound_nodes": nodes,
    }  # fmt: skip


def text(model: Mapping[str, Any]) -> bytes:
    return json.dumps(model).encode()


def archive(config: bytes, members: Mapping[str, bytes] | None = None, packing: int = zipfile.ZIP_STORED) -> bytes:
    """Return a .keras file with that config.json and other members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as file:
        for name, data in (members or {"metadata.json": b"{}"}).items():
            file.writestr(name, data)
        file.writestr("config.json", config)
    return buffer.getvalue()


def branches() -> dict[str, Any]:
    """Return a network with most features of a file: nested, shared, merged; its tests counted it by hand."""
    conv = layer("Conv2D", "conv", "image", filters=4, kernel_size=[3, 3], padding="same", activation="relu")
    inner = layer("Conv2D", "inner", filters=4, kernel_size=[1, 1], kernel_initializer={"class_name": "Zeros"})
    block = sequential(
        source(8, 8, 4, name="in"), inner, name="block", calls=[called("conv"), called(tensor("block", 0))]
    )
    total = layer("Add", "sum", called([tensor("conv"), tensor("block", 1)]))
    pool = layer("GlobalAveragePooling2D", "pool", "sum", data_format="channels_last", keepdims=False)
    return functional(source(8, 8, 3), conv, block, total, pool, layer("Dense", "out", "pool", units=10))
