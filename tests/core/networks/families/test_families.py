"""Families: presets, names, limits, and that a new family needs only its own module."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.networks.families import families, network_from_dict, network_from_name
from core.networks.families.mlp import Mlp

CHOSEN = [name for name, kind in families().items() if kind.choices]


@pytest.mark.parametrize("family", CHOSEN)
def test_every_preset_reads_back(family: str) -> None:
    kind = families()[family]
    assert kind.presets
    assert kind.notation.endswith(".")
    for name in kind.presets:
        network = network_from_name(name, family)
        assert network.name == name
        assert network_from_name(name) == network  # no other family claims the name
        assert network_from_dict(network.model_dump()) == network
        assert network.parameters == sum(layer.parameters for layer in network.layers)


@pytest.mark.parametrize("family", CHOSEN)
def test_choices_have_defaults_that_build_and_a_word_for_each_kind(family: str) -> None:
    kind = families()[family]
    defaults = {choice.name: choice.default for choice in kind.choices}
    assert len(defaults) == len(kind.choices)
    network = kind.from_choices(defaults)
    assert kind.from_name(network.name) == network
    assert network.classes == defaults["classes" if "classes" in defaults else "vocabulary"]
    for choice in kind.choices:
        assert choice.low <= choice.default <= choice.high
        assert len(choice.words) in (0, choice.high - choice.low + 1)


@pytest.mark.parametrize("family", ["mlp", "cnn", "transformer", "recurrent"])
@pytest.mark.parametrize("name", ["depth", "width"])
def test_networks_grow_with_depth_and_with_width(family: str, name: str) -> None:
    kind = families()[family]
    defaults = {choice.name: choice.default for choice in kind.choices}
    small, large = (kind.from_choices(defaults | {name: factor * defaults[name]}) for factor in (1, 2))
    assert small.parameters < large.parameters
    assert small.flops_per_sample(True) < large.flops_per_sample(True)
    assert small.activations < large.activations


def test_a_name_of_no_family_is_answered_with_examples() -> None:
    with pytest.raises(ValueError, match=r"“lots” .*lenet5.*784-128-10"):
        network_from_name("lots")
    with pytest.raises(ValidationError, match="8192"):  # parsed, but out of the limits
        network_from_name("lstm-9999x1-28x28-10")
    with pytest.raises(ValueError, match="“cobweb” is unknown"):
        network_from_name("lenet5", "cobweb")


def test_the_presets_people_write_about_are_there() -> None:
    assert {"784-128-10", "784-512-512-10", "128-256-128-1", "1000-512-256-2", "100-50-10"} <= set(Mlp.presets)
    assert Mlp.from_name("128-256-128-1").classes == 1


@given(st.integers(1, 65_536), st.lists(st.integers(8, 16_384), min_size=1, max_size=64), st.integers(1, 10_000))
def test_a_name_reads_back(inputs: int, hidden: list[int], outputs: int) -> None:
    network = Mlp(inputs=inputs, hidden=tuple(hidden), outputs=outputs)
    assert Mlp.from_name(network.name) == network


def test_choices_build_a_network_of_limited_depth() -> None:
    picked = {"depth": 12, "width": 64, "inputs": 100, "classes": 3}
    network = Mlp.from_choices(picked)
    assert (network.hidden, network.inputs, network.classes) == ((64,) * 12, 100, 3)
    assert network.name == "100-64x12-3"
    for depth in (0, 65, 10**9):  # refused before anything is built
        with pytest.raises(ValueError, match="Depth"):
            Mlp.from_choices(picked | {"depth": depth})


WRONG = {
    "mlp": (
        "joined by dashes",
        ["", "784", "784-10", "a-b-c", "784-x-10", "784-512x-1", "784-512x99999999-10", "1--1-2"],
    ),
    "cnn": (
        "is no convolutional network; write it as in lenet5",
        ["", "cnn", "cnn-28x28-32x2-k3-10", "cnn-28x32x1-32x2-k3-10", "cnn-28x28x1-32x2-k3-fast-10", "lenet7",
         "cnn-28x28x1-32x2-k3-10-", "cnn-28x28x1-" + "9" * 5_000 + "x2-k3-10"],
    ),
    "transformer": (
        "is no transformer encoder; write it as in transformer-128x2",
        ["", "bert", "transformer-128x2-h4-s128-2", "bert-huge-like"],
    ),
    "recurrent": (
        "is no recurrent network; write it as in lstm-128x1-28x28-10",
        ["", "lstm", "rnn-128x1-28x28-10", "lstm-128-28x28-10"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, (_, names) in WRONG.items() for name in names])
def test_a_wrong_name_is_answered_with_examples(family: str, name: str) -> None:
    with pytest.raises(ValueError, match=WRONG[family][0]):
        families()[family].from_name(name)


BEYOND = {
    "mlp": ["784-4-10", "784-16385-10", "70000-64-10", "784-64-0", "784-64x64-64-10"],
    "cnn": [
        "cnn-7x7x1-32x2-k3-10", "cnn-513x513x1-32x2-k3-10", "cnn-28x28x65-32x2-k3-10", "cnn-28x28x1-3x2-k3-10",
        "cnn-28x28x1-2049x2-k3-10", "cnn-28x28x1-32x65-k3-10", "cnn-28x28x1-32x2-k12-10", "cnn-28x28x1-32x2-k3-0",
        "resnet20-600x600x3-10",
    ],
    "transformer": [
        "transformer-128x65-h4-s128-f4-v20000-2", "transformer-8200x2-h4-s128-f4-v20000-2",
        "transformer-128x2-h4-s9000-f4-v20000-2", "transformer-128x2-h4-s128-f9-v20000-2",
        "transformer-128x2-h4-s128-f4-v1-2", "transformer-128x2-h4-s128-f4-v20000-0",
        "transformer-8192x64-h128-s8192-f8-v1000000-2",
    ],
    "recurrent": [
        "lstm-3x1-28x28-10", "lstm-9000x1-28x28-10", "gru-128x17-28x28-10", "gru-128x1-10001x28-10",
        "gru-128x1-28x0-10", "lstm-128x1-28x28-0", "lstm-8192x16-10000x65536-10000",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in BEYOND.items() for name in names])
def test_limits_hold(family: str, name: str) -> None:
    with pytest.raises(ValidationError):
        families()[family].from_name(name)


@pytest.mark.parametrize("name", [name for kind in families().values() for name in kind.presets])
def test_choices_make_the_network_that_they_are_read_from(name: str) -> None:
    network = network_from_name(name)
    choices = network.as_choices()
    assert (choices is None) == (name in ("lenet5", "128-256-128-1", "1000-512-256-2"))
    assert choices is None or type(network).from_choices(choices) == network
