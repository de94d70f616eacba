"""Architectures from files: what is read, what is dropped, and what is refused with the layer's name."""

from typing import Any

import pytest

from core.networks.architecture.counts import count, output_shape
from core.networks.architecture.graph import INPUT, Graph
from core.networks.architecture.read import read_architecture
from simulated.keras_files import archive, branches, called, functional, layer, sequential, source, tensor, text

DENSE = layer("Dense", "out", "image", units=3)


def read(model: dict[str, Any]) -> Graph:
    return read_architecture(text(model))


def by_name(graph: Graph) -> dict[str, Any]:
    return {each.name: each for each in graph.layers}


def test_nested_and_shared_layers_become_one_list_of_what_matters_in_a_keras_file_too() -> None:
    graph = read(branches())
    assert [each.name for each in graph.layers] == ["conv", "block_inner", "block_inner_2", "sum", "pool", "out"]
    first, again = graph.layers[1:3]
    assert (first.inputs, first.shares) == (("conv",), None)
    assert (again.inputs, again.shares, again.options) == (("block_inner",), "block_inner", {})
    assert by_name(graph)["sum"].inputs == ("conv", "block_inner_2")
    assert sum(each.parameters for each in count(graph)) == (27 + 1) * 4 + (4 + 1) * 4 + (4 + 1) * 10
    assert (graph.input_shape, output_shape(graph), graph.output) == ((8, 8, 3), (10,), "out")
    assert by_name(graph)["conv"].options == {
        "filters": 4, "kernel_size": (3, 3), "padding": "same", "activation": "relu",
    }  # fmt: skip
    assert by_name(graph)["out"].options == {"units": 10}
    weights = {"metadata.json": b"{}", "model.weights.h5": b"never opened", "../../etc/passwd": b"nor this"}
    assert read_architecture(archive(text(branches()), weights), "net.keras") == graph


@pytest.mark.parametrize(
    "shape",
    [
        sequential(source(4), layer("Dense", "out", units=3)),
        sequential(layer("Dense", "out", units=3, batch_input_shape=[None, 4])),
        sequential(layer("Dense", "out", units=3), build_input_shape=[None, 4]),
        sequential(sequential(source(4, name="in"), layer("Dense", "out", units=3), name="inner")),
        functional(source(4), layer("Dense", "out", "image", units=3), input_layers=[["image", 0, 0]]),
        functional(source(4), layer("Dense", "out", "image", units=3), output_layers={"a": ["out", 0, 0]}),
    ],
)
def test_the_input_is_found_wherever_keras_writes_it(shape: dict[str, Any]) -> None:
    graph = read(shape)
    assert (graph.input_shape, output_shape(graph), len(graph.layers)) == ((4,), (3,), 1)


def test_keras_2_is_read_too() -> None:
    def written(kind: str, name: str, nodes: list[Any], **config: Any) -> dict[str, Any]:
        return {"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": nodes}

    layers = [
        written("InputLayer", "image", [], batch_input_shape=[None, 8, 8, 1], dtype="float32", sparse=False),
        written(
            "Conv2D", "c", [[["image", 0, 0, {}]]], batch_input_shape=None, filters=2, kernel_size=[3, 3],
            dtype="float32",
        ),
        written(
            "BatchNormalization", "bn", [[["c", 0, 0, {"training": None}]]], axis=[3], momentum=0.99, epsilon=0.001,
            center=True, scale=True,
        ),
        written("Concatenate", "both", [[["c", 0, 0, {}], ["bn", 0, 0, {}]]], axis=-1),
        written("Reshape", "steps", [[["both", 0, 0, {}]]], target_shape=[36, 4]),
        written(
            "MultiHeadAttention", "mha", [[["steps", 0, 0, {"value": ["steps", 0, 0]}]]], num_heads=2, key_dim=2,
            attention_axes=[1], query_shape=[None, 36, 4],
        ),
    ]  # fmt: skip
    ends = {"input_layers": [["image", 0, 0]], "output_layers": [["mha", 0, 0]]}
    model = {
        "class_name": "Functional",
        "config": {"name": "m", "layers": layers, **ends},
        "keras_version": "2.15.0",
        "backend": "tensorflow",
    }
    graph = read(model)
    assert by_name(graph)["both"].inputs == ("c", "bn")
    assert by_name(graph)["mha"].inputs == ("steps", "steps")
    assert output_shape(graph) == (36, 4)


def test_whole_numbers_need_an_embedding_that_says_how_many_there_are() -> None:
    embedding = layer("Embedding", "words", "image", input_dim=500, output_dim=8)
    pool = layer("GlobalAveragePooling1D", "pool", "words")
    for dtype in ("float32", "int32"):
        graph = read(functional(source(12, dtype=dtype), embedding, pool))
        assert (graph.vocabulary, output_shape(graph)) == (500, (8,))
    with pytest.raises(ValueError, match="no Embedding"):
        read(functional(source(4, dtype="int64"), DENSE))


def test_both_directions_must_be_alike() -> None:
    def wrapped(backward: dict[str, Any]) -> dict[str, Any]:
        forward = layer("LSTM", "f", units=5, zero_output_for_mask=True, go_backwards=False)
        return functional(source(6, 3), layer("Bidirectional", "both", "image", layer=forward, backward_layer=backward))

    graph = read(wrapped(layer("LSTM", "b", units=5, zero_output_for_mask=True, go_backwards=True)))
    assert graph.layers[0].options == {"layer": {"class_name": "LSTM", "config": {"units": 5}}}
    assert output_shape(graph) == (10,)
    with pytest.raises(ValueError, match=r"“both” .*differs"):
        read(wrapped(layer("LSTM", "b", units=6, go_backwards=True)))
    with pytest.raises(ValueError, match=r"“both” .*same direction"):
        read(wrapped(layer("LSTM", "b", units=5, go_backwards=False)))


def operation(kind: str, *arguments: Any) -> dict[str, Any]:
    return {**layer(kind, "op", called(*arguments)), "module": "keras.src.ops.numpy", "registered_name": kind}


@pytest.mark.parametrize(
    ("kind", "arguments", "scale", "offset"),
    [
        ("Multiply", ("image", 0.25), 0.25, 0.0),
        ("Add", (3, "image"), 1.0, 3.0),
        ("Subtract", ("image", 3), 1.0, -3.0),
        ("Subtract", (3, "image"), -1.0, 3.0),
        ("TrueDivide", ("image", 4), 0.25, 0.0),
    ],
)
def test_arithmetic_with_a_number_is_a_rescaling(kind: str, arguments: Any, scale: float, offset: float) -> None:
    found = read(functional(source(4), operation(kind, *arguments))).layers[0]
    assert (found.kind, found.options["scale"], found.options.get("offset", 0.0)) == ("Rescaling", scale, offset)


def test_arithmetic_on_two_tensors_is_a_merge_a_second_call_another_one_and_other_operations_refused() -> None:
    twice = layer("Dense", "out", "op", units=2)
    found = read(functional(source(4), operation("Multiply", "image", "image"), twice)).layers[0]
    assert (found.kind, found.inputs) == ("Multiply", (INPUT, INPUT))
    for kind, arguments in (("TrueDivide", (1, "image")), ("TrueDivide", ("image", 0)), ("Sort", ("image",))):
        with pytest.raises(ValueError, match=rf"“op” \({kind}\)"):
            read(functional(source(4), operation(kind, *arguments)))
    with pytest.raises(ValueError, match="mask_zero"):
        read(functional(source(4), operation("NotEqual", "image", 0)))
    twice = layer("Dense", "out", called(tensor("op", 1)), units=2)
    found = read(
        functional(
            source(4),
            operation("Multiply", "image", 2) | {"inbound_nodes": [called("image", 2), called("op", 3)]},
            twice,
        )
    ).layers
    assert [each.options["scale"] for each in found[:2]] == [2.0, 3.0]


def custom(**changes: Any) -> dict[str, Any]:
    return functional(source(4), {**DENSE, **changes})


def last(*calls: Any, kind: str = "Dense", **options: Any) -> dict[str, Any]:
    """Return one layer called “out”; a Dense one has 3 units by default."""
    return functional(source(4), layer(kind, "out", *calls, **({"units": 3} if kind == "Dense" else {}) | options))


REFUSED = {
    r"“out” \(Lambda\): it holds code": custom(class_name="Lambda"),
    r"“out” \(TFOpLambda\): it is not among": custom(class_name="TFOpLambda"),
    r"“out” \(Blaster\): it is not among": custom(class_name="Blaster"),
    r"“out” \(LayerScale\): it is not among": last("image", kind="LayerScale", init_values=1.0, projection_dim=4),
    r"“out” \(Dense\): it is the custom object “mine>Dense”": custom(registered_name="mine>Dense"),
    r"“out” \(Dense\): it comes from “os”": custom(module="os"),
    r"“out” \(Dense\): it comes from “kerasevil.layers”": custom(module="kerasevil.layers"),
    r"“out” \(Dense\): option “units” is -3": last("image", units=-3),
    r"“out” \(Dense\): option “secret” is not known": last("image", secret=1),
    r"“out” \(Dense\): its “activation” is an object or code": last(
        "image", activation={"class_name": "function", "config": "f"}
    ),
    r"“out” \(Dense\): it is called with the argument “mask”": last(called("image", mask=tensor("image"))),
    r"“image” \(InputLayer\): axis 2 of its input has no length": functional(source(4, None), DENSE),
    r"“image” \(InputLayer\): it takes sparse": functional(
        layer("InputLayer", "image", batch_shape=[None, 4], sparse=True), DENSE
    ),
    "“net” .*its input is of type “string”": functional(source(4, dtype="string"), DENSE),
    "“net” .*it has 2 inputs": functional(source(4), DENSE, input_layers=[["image", 0, 0], ["out", 0, 0]]),
    "“net” .*it has 2 outputs": functional(source(4), DENSE, output_layers=[["out", 0, 0], ["out", 0, 0]]),
    "“net” .*two layers of the name “out”": functional(source(4), DENSE, DENSE),
    "“out” .*it takes its own output": last("out"),
    "“a” .*its own output|“b” .*its own output": functional(
        source(4), layer("Dense", "a", "b", units=3), layer("Dense", "b", "a", units=3)
    ),
    "“out” .*call 0 of “ghost”": last("ghost"),
    "“out” .*output 1 of call 0 of “image”": last(called(tensor("image", 0, 1))),
    "“stray” .*does not lead to the network's output": functional(
        source(4), layer("Dense", "stray", "image", units=3), DENSE
    ),
    r"“out” \(Conv2D\): takes rows, columns and channels": last("image", kind="Conv2D", filters=3, kernel_size=3),
    "“net” .*it holds no layers": sequential(),
    "“out” .*input shape is missing": sequential(layer("Dense", "out", units=3)),
    "it has .* parameters|parameters; accepted": functional(source(2**20), layer("Dense", "out", "image", units=2**20)),
    "one layer; accepted are Sequential and Functional": DENSE,
    "describes no Keras model": {"weights": [1, 2, 3]},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_refusal_names_the_layer(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        read(REFUSED[sentence])
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_kinds_of_keras_applications_are_read_where_they_are_asked_for() -> None:
    model = functional(source(4), layer("LayerScale", "out", "image", init_values=1.0, projection_dim=4))
    assert output_shape(read_architecture(text(model), public=False)) == (4,)


def test_names_are_made_short_printable_unlike_and_apart_from_the_sample() -> None:
    long, odd = "x" * 200, "a\nb\u202e"
    model = functional(
        source(4), layer("Dense", long + "1", "image", units=4), layer("Dense", long + "2", long + "1", units=4),
        layer("Dense", odd, long + "2", units=4),
    )  # fmt: skip
    names = [each.name for each in read(model).layers]
    assert len(set(names)) == 3
    assert all(name.isprintable() and len(name) <= 70 for name in names)
    graph = read(functional(source(4), layer("Dense", "input", "image", units=2)))
    assert graph.layers[0].name != INPUT
    assert graph.layers[0].inputs == (INPUT,)
