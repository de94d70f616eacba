"""Your own architecture as a network family: one text that travels, checked wherever it arrives."""

import json

import pytest
from pydantic import ValidationError

from core.networks.architecture.text import dump
from core.networks.families import network_from_dict
from core.networks.families.own import Own, label_of
from core.workload.spec import Workload
from simulated.keras_files import branches, functional, layer, source, text

FILE = text(branches())


def test_a_file_becomes_a_network_that_survives_plans_and_stores() -> None:
    network = Own.from_file(FILE, "C:\\nets\\my net.v2.json")
    assert (network.name, network.input_shape, network.classes) == ("my net.v2", (8, 8, 3), 10)
    assert (network.parameters, network.from_logits, network.vocabulary) == (112 + 20 + 50, True, None)
    assert [each.name for each in network.layers] == ["conv", "block_inner", "block_inner_2", "sum", "pool", "out"]
    assert network_from_dict(json.loads(json.dumps(network.model_dump()))) == network
    workload = Workload(network=network)
    assert Workload.model_validate_json(workload.model_dump_json()) == workload
    assert hash(network) == hash(Own.from_file(FILE, "my net.v2.json"))


def test_the_text_is_brought_to_one_form() -> None:
    network = Own.from_file(FILE, "net.json")
    loose = json.dumps(json.loads(network.architecture), indent=3)
    assert loose != network.architecture
    assert Own(architecture=loose, label="net") == network
    spelt_out = json.loads(network.architecture)
    spelt_out["layers"][0]["options"] |= {"strides": 1, "use_bias": True, "kernel_size": 3}
    assert Own(architecture=json.dumps(spelt_out), label="net") == network
    assert dump(network.graph) == network.architecture


def test_a_text_from_elsewhere_is_checked_as_a_file_is() -> None:
    known = json.loads(Own.from_file(FILE, "").architecture)
    lambdas = known | {"layers": [{"name": "f", "kind": "Lambda"}]}
    private = known | {"layers": [{"name": "f", "kind": "StochasticDepth", "options": {"drop_path_rate": 0.5}}]}
    huge = known | {"input": [2**20], "layers": [{"name": "d", "kind": "Dense", "options": {"units": 2**30}}]}
    for data, sentence in ((lambdas, "“f” .Lambda.: it is not among"), (private, "“f” .Stoch"), (huge, "parameters")):
        with pytest.raises(ValidationError, match=sentence):
            Own(architecture=json.dumps(data))
    with pytest.raises(ValidationError, match="letters, digits"):
        Own(architecture=json.dumps(known), label="a\nb")


def test_the_loss_follows_the_output() -> None:
    def network(units: int, activation: str) -> Own:
        last = layer("Dense", "out", "image", units=units, activation=activation)
        return Own.from_file(text(functional(source(4), last)), "")

    logits = {(u, a): network(u, a).from_logits for u in (1, 3) for a in ("linear", "sigmoid", "softmax")}
    assert [key for key, value in logits.items() if not value] == [(1, "sigmoid"), (3, "softmax")]


@pytest.mark.parametrize(
    ("filename", "label"),
    [
        ("net.v2.json", "net.v2"),
        ("../../etc/passwd", "passwd"),
        ("a\x00b\u202e.json", "ab"),
        ("", "own architecture"),
        (".json", "own architecture"),
        ("**bold** [x](y) <i>.json", "bold x(y) i"),
        ("n" * 500 + ".json", "n" * 60),
    ],
)
def test_a_label_is_short_and_printable(filename: str, label: str) -> None:
    assert label_of(filename) == label
    assert Own.from_file(FILE, filename).label == label


def test_neither_a_name_nor_sizes_make_one() -> None:
    assert Own.presets == Own.choices == ()
    for attempt in (lambda: Own.from_name("net"), lambda: Own.from_choices({})):
        with pytest.raises(ValueError, match="--architecture"):
            attempt()
