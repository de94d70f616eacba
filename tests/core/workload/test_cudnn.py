"""cuDNN's conditions: Breakeven's against the installed Keras, asked as if there were a GPU, and their sentences."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from core.networks.architecture.graph import Graph, Layer, chain
from core.networks.families import network_from_name
from core.networks.families.graph_network import GraphNetwork
from core.workload.cudnn import KERAS, cudnn_note, cudnn_reasons, turns_xla_off
from core.workload.spec import Target, Workload
from tests.support.framework import answered

GPU, XLA, CPU = Target(device="gpu:0"), Target(device="gpu:0", execution="xla"), Target(threads=1)
CHANGES: dict[str, Any] = {
    "activation": "relu", "recurrent_activation": "hard_sigmoid", "use_bias": False, "unroll": True,
    "recurrent_dropout": 0.2, "reset_after": False,
}  # fmt: skip
HARMLESS = {"dropout": 0.3, "go_backwards": True, "return_sequences": True}

# For every layer: does its call reach cuDNN's function, and does Keras then still compile the network?
ASK_KERAS = """
import json, sys
from unittest import mock
import keras
rnn = sys.modules["keras.src.backend.tensorflow.rnn"]  # a function of the same name hides it
reached = []
def kernel(*arguments, **named):
    reached.append(True)
    raise NotImplementedError
told = []
with mock.patch.multiple(rnn, _is_gpu_available=lambda: True, _cudnn_lstm=kernel, _cudnn_gru=kernel):
    for kind, options in json.load(sys.stdin):
        reached.clear()
        layer = getattr(keras.layers, kind)(2, **options)
        layer(keras.ops.zeros((1, 2, 3)), training=True)
        told.append([bool(reached), layer.supports_jit])
print(json.dumps([keras.__version__, told]))
"""


def network(*layers: Layer, vocabulary: int | None = None) -> Graph:
    found = chain(*layers)
    return Graph((8, 3), found, found[-1].name, vocabulary)


def cases() -> list[tuple[str, dict[str, Any]]]:
    """Return each change alone, every pair of changes, and no change, for each kind of layer."""
    picked = [(), *itertools.combinations(CHANGES, 1), *itertools.combinations(CHANGES, 2)]
    found = []
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        has = {name for name in CHANGES if kind == "GRU" or name != "reset_after"}
        has -= {"recurrent_activation"} if kind == "SimpleRNN" else set()
        found += [(kind, {name: CHANGES[name] for name in names}) for names in picked if set(names) <= has]
        found.append((kind, HARMLESS))
    return found


@pytest.mark.tensorflow
def test_the_conditions_are_those_of_the_installed_keras() -> None:
    asked = cases()
    version, told = answered("-c", ASK_KERAS, question=asked)
    assert version.startswith(f"{KERAS}."), "read Keras's conditions again, and name the new version"
    assert {reached for reached, _ in told} == {True, False}
    for (kind, options), (reached, compiled) in zip(asked, told, strict=True):
        graph = network(Layer("cell", kind, options))
        assert (not cudnn_reasons(graph, GPU)) is reached, (kind, options)
        assert turns_xla_off(graph) is not compiled, (kind, options)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("SimpleRNN", {}, "has no cuDNN path in Keras"),
        ("LSTM", {"activation": "relu"}, "has relu for its activation, where cuDNN has tanh only"),
        ("GRU", {"recurrent_activation": "hard_sigmoid"}, "has hard_sigmoid gates (recurrent_activation)"),
        ("LSTM", {"use_bias": False}, "has no bias (use_bias), which cuDNN needs"),
        ("LSTM", {"unroll": True}, "is unrolled (unroll)"),
        ("GRU", {"reset_after": False}, "(reset_after)"),
        ("LSTM", {"recurrent_dropout": 0.1}, "drops recurrent values (recurrent_dropout)"),
    ],
)
def test_every_reason_names_the_layer_and_the_option(kind: str, options: dict[str, Any], words: str) -> None:
    (reason,) = cudnn_reasons(network(Layer("memory", kind, {"units": 4, **options})), GPU)
    assert reason.startswith(f"Layer “memory” ({kind}) ")
    assert words in reason
    assert reason.endswith(".")


def test_several_reasons_stand_in_one_sentence_and_shared_layers_count_once() -> None:
    inner = {"class_name": "GRU", "config": {"units": 4, "reset_after": False}}
    first = Layer("both", "Bidirectional", {"layer": inner})
    again = Layer("again", "Bidirectional", {}, ("both",), shares="both")
    (reason,) = cudnn_reasons(Graph((8, 3), (first, again), "again"), GPU)
    assert reason.startswith("Layer “both” (GRU) ")
    fitting = {"class_name": "LSTM", "config": {"units": 4}}
    assert cudnn_reasons(network(Layer("both", "Bidirectional", {"layer": fitting})), GPU) == ()
    options = {"units": 4, "activation": "relu", "unroll": True}
    (reason,) = cudnn_reasons(network(Layer("memory", "LSTM", options)), GPU)
    assert reason.count(" and ") == 1
    assert reason.count(".") == 1


def test_only_a_gpu_has_cudnn_and_only_recurrent_layers_ask_for_it() -> None:
    lstm = network(Layer("memory", "LSTM", {"units": 4}))
    assert ["is no GPU" in reason for reason in cudnn_reasons(lstm, CPU)] == [True]
    dense = network(Layer("dense", "Dense", {"units": 4}))
    assert cudnn_reasons(dense, CPU) == cudnn_reasons(dense, GPU) == ()
    assert not turns_xla_off(dense)


class Drawn(GraphNetwork):
    """A network of a given graph, which no plan can name."""

    title = "Drawn"
    presets = ()
    choices = ()
    layers_: tuple[str, ...]
    masked: bool = False

    @property
    def name(self) -> str:
        return "drawn"

    @property
    def graph(self) -> Graph:
        rows = []
        if self.masked:
            rows.append(Layer("words", "Embedding", {"input_dim": 9, "output_dim": 3, "mask_zero": True}))
        for number, kind in enumerate(self.layers_):
            rows.append(Layer(f"layer_{number}", kind, {"units": 4, "return_sequences": True}))
        return network(*rows)

    @classmethod
    def from_name(cls, name: str) -> Drawn:
        raise NotImplementedError

    @classmethod
    def from_choices(cls, values: dict[str, int]) -> Drawn:
        raise NotImplementedError


def note(*kinds: str, targets: tuple[Target, ...] = (CPU, GPU), masked: bool = False) -> str | None:
    return cudnn_note(Workload(network=Drawn(layers_=kinds, masked=masked)), targets)


def test_the_note_is_about_recurrent_layers_on_gpus_and_counts_those_that_fall_back() -> None:
    assert note("Dense") is None
    assert note("LSTM", targets=(CPU, Target())) is None
    assert cudnn_note(Workload(network=network_from_name("784-128-10")), (CPU, GPU)) is None
    assert note("LSTM", "GRU") == f"On gpu:0 Keras {KERAS} runs the recurrent layers by cuDNN's kernels."
    said = note("LSTM", "SimpleRNN", "GRU")
    assert "runs 1 of 3 recurrent layers step by step, without cuDNN: Layer “layer_1” (SimpleRNN)" in said


def test_the_note_warns_of_xla_and_of_masks_only_where_they_matter() -> None:
    left_out = "Keras leaves it out"
    assert left_out in str(note("LSTM", targets=(GPU, XLA)))
    assert left_out in str(note("SimpleRNN", "LSTM", targets=(CPU, XLA)))
    assert left_out not in str(note("SimpleRNN", targets=(GPU, XLA)))
    assert left_out not in str(note("LSTM", targets=(Target(execution="xla"), GPU)))
    assert "on the right" in str(note("LSTM", masked=True))
    assert "on the right" not in str(note("LSTM"))
    assert "on the right" not in str(note("SimpleRNN", masked=True))
