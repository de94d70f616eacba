"""Files written by Keras itself are read, and the network built from them is the same."""

import pytest

from core.networks.architecture.counts import count, output_shape
from core.networks.architecture.read import read_architecture
from core.networks.families.own import Own
from tests.support.keras_models import Written, written

pytestmark = pytest.mark.tensorflow

NAMES = [
    "sequential", "built later", "residual", "called twice", "nested twice", "shared", "both directions", "recurrent",
    "attention", "image to image", "gated", "grouped",
]  # fmt: skip


@pytest.fixture(scope="module")
def models() -> dict[str, Written]:
    return {each.name: each for each in written()}


def test_every_model_is_compared(models: dict[str, Written]) -> None:
    assert list(models) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_as_it_was(models: dict[str, Written], name: str) -> None:
    model = models[name]
    graph = read_architecture(model.text)
    assert sum(each.parameters for each in count(graph)) == model.parameters
    assert output_shape(graph) == model.shape
    assert model.rebuilt == (model.parameters, model.shape)
    assert read_architecture(model.archive, f"{name}.keras") == graph
    assert read_architecture(model.legacy) == graph
    assert Own.from_file(model.archive, f"{name}.keras").architecture == Own.from_file(model.text, "").architecture
