"""The flags that name a network: the networks that they make, and the sentences of refusals."""

import json
from pathlib import Path

import click
import pytest

from core.cli.files import BadInput
from core.cli.networks import network_of, network_options, sizes_of
from core.networks.families import Network, families, network_from_name
from simulated.commands import Command, holds, refused


@click.command()
@network_options()
def command() -> None:
    """Provide a command with these flags and no others."""


def network(*arguments: object) -> Network:
    return network_of(command.make_context("test", [str(argument) for argument in arguments]).params)


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """Write the output of ``model.to_json()`` for one Dense layer of 3 units on 5 values."""
    dense = {"module": "keras.layers", "class_name": "Dense", "registered_name": None,
             "config": {"name": "dense", "units": 3, "activation": "linear"}}  # fmt: skip
    start = {"module": "keras.layers", "class_name": "InputLayer", "registered_name": None,
             "config": {"batch_shape": [None, 5], "dtype": "float32", "name": "input_layer"}}  # fmt: skip
    model = {"module": "keras", "class_name": "Sequential", "registered_name": None,
             "config": {"name": "sequential", "layers": [start, dense]}}  # fmt: skip
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(model))
    return path


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((), "784-512-512-10"),
        (("--width", 64), "784-64-64-10"),
        (("--family", "cnn"), "cnn-28x28x1-32x2-k3-max-10"),
        (("--family", "cnn", "--layout", "Residual", "--batch-norm", "yes", "--pooling", "none", "--depth", 4),
         "cnn-28x28x1-32x4-k3-residual-bn-10"),
        (("--family", "transformer", "--norm", "post", "--heads", 8, "--feed-forward", 2),
         "transformer-128x2-h8-s128-f2-v20000-post-2"),
        (("--family", "recurrent", "--cell", "gru", "--sequence", 7), "gru-128x2-7x32-10"),
        (("--application", "VGG16"), "VGG16"),
        (("--application", "VGG16", "--image", 64), "VGG16@64:10"),
        (("--heads", 8, "--width", 64), "transformer-64x2-h8-s128-f4-v20000-2"),
        (("--preset", "lenet5"), "lenet5"),
        (("--preset", "bert-mini-like", "--family", "transformer"), "bert-mini-like"),
        (("--preset", "20-8-4"), "20-8-4"),
    ],
)  # fmt: skip
def test_flags_make_the_network(arguments: tuple[object, ...], name: str) -> None:
    assert network(*arguments) == network_from_name(name)


def test_every_size_of_every_family_can_be_chosen_by_its_flag() -> None:
    for family, kind in families().items():
        for choice in kind.choices:
            text = choice.words[-1] if choice.words else str(choice.default)
            value = choice.high if choice.words else choice.default
            assert sizes_of(family, {choice.name: text})[choice.name] == value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--family", "mlp", "--heads", 4), "--heads is no size of mlp; leave it out, or choose --family decoder"),
        (("--heads", 4, "--cell", "gru"), "--heads is no size of mlp; leave it out, or choose --family decoder"),
        (("--image", 32), "--image may mean application or cnn; say which with --family."),
        (("--family", "mlp", "--cell", "gru"), "--cell is no size of mlp; leave it out, or choose --family recurrent."),
        (("--family", "recurrent", "--cell", "rnn"), "Cell is “rnn”; accepted are LSTM, GRU."),
        (("--depth", "two"), "--depth is “two”; accepted is a whole number."),
        (("--depth", "9" * 12), "accepted is a whole number."),
        (("--depth", "-1"), "Depth is -1"),
        (("--preset", "lenet5", "--family", "transformer"), "“lenet5” is no transformer encoder"),
        (("--preset", "lenet5", "--depth", 3), "--preset names the whole network; leave it out, or --depth."),
        (("--preset", "lenet5", "--model", "a:b"), "--preset names the whole network; leave it out, or --model."),
        (("--preset", "nothing"), "“nothing” is no network of any family"),
        (
            ("--architecture", "x.json", "--width", 3),
            "--architecture names the whole network; leave it out, or --width.",
        ),
        (("--model", "a.b:c", "--family", "cnn"), "--model names the whole network; leave it out, or --family."),
        (("--family", "own"), "name it with --architecture"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        network(*arguments)
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


def test_code_is_no_family_to_choose() -> None:
    with pytest.raises(click.BadParameter, match="code"):
        network("--family", "code")


def test_an_architecture_comes_from_a_file(description: Path) -> None:
    found = network("--architecture", description)
    assert (found.name, found.input_shape, found.classes, found.parameters) == ("mine", (5,), 3, 18)
    assert network("--architecture", description, "--family", "own") == found


def test_a_file_that_is_no_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.json"):
        network("--architecture", tmp_path / "nowhere.json")
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"list|object|Keras"):
        network("--architecture", tmp_path / "bad.json")


def test_a_function_is_described_by_the_model_code(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "core.cli.model_code.network_from_code", lambda *entry: asked.append(entry) or network_from_name("9-8-2")
    )
    assert network("--model", "mine.models:build").name == "9-8-2"
    assert asked == [("mine.models:build", None, ())]


def test_commands_refuse_a_network_with_one_line(cli: Command, description: Path) -> None:
    assert "of 3 heads" in refused(cli("sweep", "--family", "transformer", "--heads", 3))
    assert "Cell is “x”" in refused(cli("pipeline", "--family", "recurrent", "--cell", "x"))
    assert "--family" in refused(cli("sweep", "--architecture", description, "--family", "mlp"))


def test_the_help_says_what_a_size_means_in_each_family() -> None:
    (width,) = (parameter for parameter in command.params if parameter.name == "width")
    assert isinstance(width, click.Option)
    holds(width.help or "", "cnn: Width (filters)", "4 to 2,048", "(default 32)")
    assert "transformer: Width (d_model)" in width.help
    assert len({parameter.name for parameter in command.params}) == len(command.params)
