"""Recurrent networks: names, the gates' parameters, the output of each layer, and refusals."""

from hypothesis import given
from hypothesis import strategies as st

from core.networks.architecture.counts import shapes
from core.networks.families.recurrent import Recurrent

DEFAULTS = {choice.name: choice.default for choice in Recurrent.choices}


@given(
    cell=st.sampled_from(["lstm", "gru"]), depth=st.integers(1, 4), units=st.integers(4, 64),
    sequence=st.integers(1, 50), features=st.integers(1, 50), outputs=st.integers(1, 50),
)  # fmt: skip
def test_parameters_follow_the_textbook_and_the_name_reads_back(
    cell: str, depth: int, units: int, sequence: int, features: int, outputs: int
) -> None:
    network = Recurrent.model_validate(
        {"cell": cell, "depth": depth, "width": units, "sequence": sequence, "features": features, "outputs": outputs}
    )
    assert Recurrent.from_name(network.name) == network
    gates, biases = (4, 1) if cell == "lstm" else (3, 2)  # Keras's GRU keeps a bias for each of its two products
    layers = [gates * units * (size + units + biases) for size in (features, *[units] * (depth - 1))]
    assert network.parameters == sum(layers) + outputs * (units + 1)
    assert (network.input_shape, network.classes, network.label_shape) == ((sequence, features), outputs, ())
    assert network.vocabulary is None
    assert network.from_logits == (outputs > 1)


def test_every_layer_hands_on_its_sequence_and_the_last_one_its_last_output() -> None:
    network = Recurrent.from_choices({**DEFAULTS, "cell": 1, "depth": 3, "width": 16, "sequence": 7, "classes": 2})
    found = shapes(network.graph)
    assert [layer.kind for layer in network.graph.layers] == ["GRU", "GRU", "GRU", "Dense"]
    assert [found[layer.name] for layer in network.graph.layers] == [(7, 16), (7, 16), (16,), (2,)]
