"""Families: presets, names, limits, and that a new family needs only its own module."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.families import families, network_from_dict, network_from_name
from core.families.mlp import Mlp


def test_every_preset_of_every_family_reads_back() -> None:
    for family, kind in families().items():
        assert kind.presets
        for name in kind.presets:
            network = network_from_name(name, family)
            assert network.name == name
            assert network_from_dict(network.model_dump()) == network
            assert network.parameters == sum(layer.parameters for layer in network.layers)


def test_the_presets_people_write_about_are_there() -> None:
    assert {"784-128-10", "784-512-512-10", "128-256-128-1", "1000-512-256-2", "100-50-10"} <= set(Mlp.presets)
    assert Mlp.from_name("128-256-128-1").classes == 1


@given(st.integers(1, 65_536), st.lists(st.integers(8, 16_384), min_size=1, max_size=64), st.integers(1, 10_000))
def test_a_name_reads_back(inputs: int, hidden: list[int], outputs: int) -> None:
    network = Mlp(inputs=inputs, hidden=tuple(hidden), outputs=outputs)
    assert Mlp.from_name(network.name) == network


def test_choices_build_a_network() -> None:
    picked = {"depth": 12, "width": 64, "inputs": 100, "classes": 3}
    network = Mlp.from_choices(picked)
    assert (network.hidden, network.inputs, network.classes) == ((64,) * 12, 100, 3)
    assert network.name == "100-64x12-3"


@pytest.mark.parametrize(
    "name", ["", "784", "784-10", "a-b-c", "784-x-10", "784-512x-1", "784-512x99999999-10", "1--1-2"]
)
def test_a_wrong_name_is_answered_with_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match="joined by dashes"):
        Mlp.from_name(name)


@pytest.mark.parametrize("name", ["784-4-10", "784-16385-10", "70000-64-10", "784-64-0", "784-64x64-64-10"])
def test_limits_hold(name: str) -> None:
    with pytest.raises(ValidationError):
        Mlp.from_name(name)


@pytest.mark.parametrize("depth", [0, 65, 10**9])
def test_depth_is_limited_before_anything_is_built(depth: int) -> None:
    with pytest.raises(ValueError, match="Depth"):
        Mlp.from_choices({"depth": depth, "width": 64, "inputs": 10, "classes": 2})
