"""Options of layers: the values that a rule accepts, their normal form, and the sentences of refusals."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.networks.architecture.counts import ArchitectureError, count
from core.networks.architecture.graph import Graph, Layer
from core.networks.architecture.options import REQUIRED
from core.networks.architecture.rules import RULES

SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Dense", {"units": 3, "use_bias": True, "activation": None}, {"units": 3}),
    ("Dense", {"units": 3, "activation": "swish"}, {"units": 3, "activation": "silu"}),
    ("Conv2D", {"filters": 2, "kernel_size": 3, "strides": 1}, {"filters": 2, "kernel_size": (3, 3)}),
    ("Conv2D", {"filters": 2, "kernel_size": [3, 1]}, {"filters": 2, "kernel_size": (3, 1)}),
    ("MaxPooling2D", {"pool_size": [2, 2], "strides": [2, 2]}, {}),
    ("MaxPooling2D", {"pool_size": 3, "strides": 3}, {"pool_size": (3, 3)}),
    ("MaxPooling2D", {"strides": 1}, {"strides": (1, 1)}),
    ("BatchNormalization", {"axis": [3]}, {"axis": 3}),
    ("LayerNormalization", {"axis": -1, "epsilon": 0.001}, {}),
    ("ZeroPadding2D", {"padding": [[1, 1], [1, 1]]}, {}),
    ("ZeroPadding2D", {"padding": [0, 2]}, {"padding": ((0, 0), (2, 2))}),
    (
        "Bidirectional",
        {"layer": {"class_name": "LSTM", "config": {"units": 4, "activation": "tanh"}}, "merge_mode": "concat"},
        {"layer": {"class_name": "LSTM", "config": {"units": 4}}},
    ),
]


@pytest.mark.parametrize(("kind", "given_options", "normal"), SAME, ids=[f"{s[0]}-{i}" for i, s in enumerate(SAME)])
def test_what_says_the_same_has_one_form(kind: str, given_options: dict[str, Any], normal: dict[str, Any]) -> None:
    assert RULES[kind].check(given_options) == normal
    assert RULES[kind].check(normal) == normal


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Dense", {"units": 3.0}, "option “units” is 3.0; accepted: whole numbers from 1"),
    ("Dense", {"units": 10**40}, "a number of more than 15 digits"),
    ("Dense", {"units": 3, "activation": "evil"}, "option “activation” is “evil”; accepted: one of celu"),
    ("Dense", {"units": 3, "activation": {"class_name": "Lambda"}}, "option “activation” is a mapping of 1"),
    ("Dense", {"units": 3, "lora_rank": 2}, "option “lora_rank” is 2; accepted: none alone"),
    ("Conv2D", {"filters": 3, "kernel_size": [3, 3, 3]}, "option “kernel_size” is a list of 3"),
    ("Conv2D", {"filters": 3, "kernel_size": 3, "data_format": "channels_first"}, "“channels_last” alone"),
    ("Conv2D", {"filters": 3, "kernel_size": 3, "padding": "causal"}, "accepted: “valid”, “same”"),
    ("Dropout", {"rate": 1.5}, "option “rate” is 1.5; accepted: numbers from 0 to 1"),
    ("Dropout", {"rate": float("nan")}, "option “rate” is nan"),
    ("LSTM", {"units": 2, "stateful": True}, "option “stateful” is True; accepted: false alone"),
    ("LSTM", {"units": 2, "return_state": 0}, "option “return_state” is 0; accepted: false alone"),
    ("BatchNormalization", {"axis": 0}, "an axis other than 0"),
    ("TimeDistributed", {"layer": {"class_name": "LSTM", "config": {"units": 2}}}, "option “layer”"),
    ("TimeDistributed", {"layer": {"class_name": ["LSTM"], "config": {}}}, "option “layer”"),
    ("Rescaling", {"scale": [[1, 2], ["x"]]}, "option “scale” is a list of 2"),
    ("Bidirectional", {"layer": {"class_name": "LSTM", "config": {"units": 0}}}, "in its LSTM, option “units” is 0"),
]


@pytest.mark.parametrize(("kind", "options", "said"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_a_refusal_names_the_option_and_what_is_accepted(kind: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RULES[kind].check(options)


def test_only_layers_of_keras_applications_are_not_public() -> None:
    assert {kind for kind, rule in RULES.items() if not rule.public} >= {"LayerScale", "StochasticDepth"}
    assert not {"Lambda", "InputLayer", "Masking", "RNN", "Wrapper"} & set(RULES)


def json_values() -> st.SearchStrategy[Any]:
    numbers = st.integers(-3, 70) | st.integers() | st.floats() | st.none() | st.booleans() | st.text(max_size=5)
    return st.recursive(
        numbers, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner)
    )


@given(st.sampled_from(sorted(RULES)), st.data())
def test_any_value_of_any_option_is_accepted_in_one_form_or_refused_in_a_sentence(
    kind: str, data: st.DataObject
) -> None:
    rule = RULES[kind]
    chosen = data.draw(st.sets(st.sampled_from(sorted(rule.options)))) if rule.options else set()
    needed = {name for name, option in rule.options.items() if option.default is REQUIRED}
    options = {name: data.draw(json_values()) for name in sorted(chosen | needed)}
    rank = data.draw(st.integers(1, 4))
    graph = Graph((5,) * rank, (Layer("layer", kind, options, ("input",) * rule.inputs[0]),), "layer")
    said = refusal(graph)
    if said is None:
        normal = rule.check(options)
        assert rule.check(normal) == normal
        assert refusal(Graph(graph.input_shape, (replace(graph.layers[0], options=normal),), "layer")) is None
    else:
        assert said.startswith(f"Layer “layer” ({kind}): ") or said.startswith("The network has")
        assert len(said) < 800
        assert "\n" not in said


def refusal(graph: Graph) -> str | None:
    """Return the sentence that refuses the graph, or None."""
    try:
        count(graph)
    except ArchitectureError as error:
        return str(error)
    return None
