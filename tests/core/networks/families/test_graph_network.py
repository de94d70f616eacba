"""The properties that a family of graph networks derives from the graph, and the names of a built model's layers."""

from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self

import pytest

from core.networks.architecture.counts import ArchitectureError
from core.networks.architecture.graph import INPUT, Graph, Layer, chain
from core.networks.families.base import Choice
from core.networks.families.graph_network import GraphNetwork, build


class Example(GraphNetwork):
    """A family with one field: the network's end."""

    title: ClassVar[str] = "Example"
    presets: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[tuple[Choice, ...]] = ()
    made: ClassVar[list[str]] = []

    family: Literal["example"] = "example"
    end: str
    units: int = 3

    @property
    def name(self) -> str:
        return self.end

    @classmethod
    def from_name(cls, name: str) -> Self:
        return cls(end=name)

    @classmethod
    def from_choices(cls, values: dict[str, int]) -> Self:
        raise NotImplementedError

    @property
    def graph(self) -> Graph:
        self.made.append(self.end)
        dense = Layer("dense", "Dense", {"units": self.units})
        ends = {
            "logits": [dense],
            "softmax": [Layer("dense", "Dense", {"units": self.units, "activation": "softmax"})],
            "sigmoid": [Layer("dense", "Dense", {"units": self.units, "activation": "sigmoid"})],
            "softmax layer": [dense, Layer("end", "Softmax")],
            "softmax activation": [dense, Layer("end", "Activation", {"activation": "softmax"})],
            "softmax, then moved": [
                dense,
                Layer("end", "Softmax"),
                Layer("moved", "Reshape", {"target_shape": (5, -1)}),
            ],
        }
        layers = chain(*ends[self.end])
        return Graph((5, 4), layers, layers[-1].name)


@pytest.mark.parametrize(
    ("end", "units", "logits"),
    [
        ("logits", 3, True),
        ("softmax", 3, False),
        ("softmax layer", 3, False),
        ("softmax activation", 3, False),
        ("softmax, then moved", 3, False),
        ("sigmoid", 3, True),
        ("sigmoid", 1, False),
        ("logits", 1, True),
    ],
)
def test_whether_the_outputs_are_logits_follows_from_the_last_function(end: str, units: int, logits: bool) -> None:
    network = Example(end=end, units=units)
    assert network.from_logits is logits
    assert (network.classes, network.label_shape, network.input_shape) == (units, (5,), (5, 4))


def test_the_graph_is_made_once_for_equal_networks() -> None:
    Example.made.clear()
    one, other = Example(end="logits", units=17), Example(end="logits", units=17)
    assert one.parameters == other.parameters == 17 * 5
    assert one.flops_per_sample(True) > one.flops_per_sample(False) > 0
    assert Example.made == ["logits"]


class Recorder:
    """Substitute for Keras that notes which layers are made with which arguments, and what they are called on."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.layers = self

    def __getattr__(self, kind: str) -> Any:
        def make(*_: Any, **options: Any) -> Any:
            self.made.append((kind, options))
            if kind == "Input":
                return "in"
            return lambda *given: self.calls.append((options.get("name", kind), given)) or options.get("name", kind)

        return make

    def Model(self, inputs: Any, outputs: Any) -> Any:
        return SimpleNamespace(inputs=inputs, outputs=outputs)


def test_every_built_layer_has_a_name_that_keras_accepts_and_none_twice() -> None:
    names = ["a/b", "a b", "A_b", "_hidden", "ünï", "x" * 300, "Input"]
    layers = chain(*(Layer(name, "ReLU") for name in names))
    keras = Recorder()
    build(keras, Graph((4,), layers, layers[-1].name))
    built = [options["name"] for kind, options in keras.made if kind != "Input"]
    assert built[:4] == ["a_b", "a_b_2", "A_b_3", "layer__hidden"]
    assert len({name.lower() for name in built} | {INPUT}) == len(names) + 1
    assert all(name.isascii() and len(name) < 80 and "/" not in name for name in built)


def test_a_shared_layer_is_made_once_and_the_last_layer_alone_is_in_full_precision() -> None:
    dense = Layer("a", "Dense", {"units": 4})
    again = Layer("b", "Dense", {}, ("a",), "a")
    total = Layer("sum", "Add", {}, ("a", "b"))
    keras = Recorder()
    build(keras, Graph((4,), (dense, again, total), "sum"))
    assert [(kind, options.get("dtype")) for kind, options in keras.made[1:]] == [("Dense", None), ("Add", "float32")]
    assert keras.calls == [("a", ("in",)), ("a", ("a",)), ("sum", (["a", "a"],))]


def test_nothing_is_built_of_a_graph_that_cannot_be_and_token_ids_are_whole_numbers() -> None:
    keras = Recorder()
    with pytest.raises(ArchitectureError):
        build(keras, Graph((4,), (Layer("l", "Lambda", {"function": "evil"}),), "l"))
    assert not keras.made
    build(keras, Graph((4,), (Layer("e", "Embedding", {"input_dim": 9, "output_dim": 2}),), "e", vocabulary=9))
    assert keras.made[0] == ("Input", {"dtype": "int64", "name": INPUT})
