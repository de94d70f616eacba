"""Every kind of layer on the allow-list: parameters and shapes equal Keras's, whatever the options.

Keras's answers are recorded, so that this is tested without it; another test checks the recording if Keras is
installed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from core.networks.architecture.counts import count, output_shape
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.options import REQUIRED
from core.networks.architecture.rules import RULES
from tests.support.keras_truth import Defaults, Truth, truths

Options = dict[str, Any]
Case = tuple[tuple[int, ...], Options]


def inner(kind: str, **config: Any) -> Options:
    return {"layer": {"class_name": kind, "config": config}}


ROW, STEPS, IMAGE, SPACE = (7,), (11, 5), (9, 8, 6), (7, 6, 5, 4)
GRIDS = {1: (13, 6), 2: (11, 9, 6), 3: (7, 6, 8, 4)}


def convolutions(rank: int) -> list[Case]:
    ragged = [3, 2, 4][:rank]
    return [
        (GRIDS[rank], {"filters": 5, "kernel_size": 3}),
        (GRIDS[rank], {"filters": 4, "kernel_size": ragged, "strides": 2, "padding": "same", "use_bias": False}),
        (GRIDS[rank], {"filters": 6, "kernel_size": 2, "groups": 2, "activation": "gelu"}),
        (GRIDS[rank], {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "activation": "softmax"}),
        (GRIDS[rank], {"filters": 3, "kernel_size": 2, "strides": [3] * rank, "padding": "valid"}),
    ]


def transposed(rank: int) -> list[Case]:
    return [
        (GRIDS[rank], {"filters": 5, "kernel_size": 3}),
        (GRIDS[rank], {"filters": 4, "kernel_size": 2, "strides": 3, "use_bias": False}),
        (GRIDS[rank], {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}),
        (GRIDS[rank], {"filters": 2, "kernel_size": 5, "strides": 2, "padding": "same", "output_padding": 1}),
        (GRIDS[rank], {"filters": 2, "kernel_size": 4, "strides": 2, "padding": "valid", "output_padding": 1}),
        (GRIDS[rank], {"filters": 3, "kernel_size": 2, "dilation_rate": 2, "padding": "valid"}),
    ]


def depthwise(rank: int) -> list[Case]:
    return [
        (GRIDS[rank], {"kernel_size": 3}),
        (GRIDS[rank], {"kernel_size": 2, "strides": 2, "padding": "same", "depth_multiplier": 3, "use_bias": False}),
        (GRIDS[rank], {"kernel_size": 3, "dilation_rate": 2, "activation": "relu"}),
    ]


def separable(rank: int) -> list[Case]:
    return [(shape, {"filters": 7, **options}) for shape, options in depthwise(rank)]


def pools(rank: int) -> list[Case]:
    return [
        (GRIDS[rank], {"pool_size": 2}),
        (GRIDS[rank], {"pool_size": 3, "strides": 2, "padding": "same"}),
        (GRIDS[rank], {"pool_size": [2, 3, 2][:rank], "strides": None}),
    ]


def over_all(rank: int) -> list[Case]:
    return [(GRIDS[rank], {}), (GRIDS[rank], {"keepdims": True})]


def recurrent() -> list[Case]:
    return [
        (STEPS, {"units": 4}),
        (STEPS, {"units": 3, "return_sequences": True, "use_bias": False}),
        (STEPS, {"units": 3, "go_backwards": True, "unroll": True, "dropout": 0.5, "activation": "relu"}),
    ]


RATES: list[Case] = [(ROW, {"rate": 0.5}), (IMAGE, {"rate": 0})]
SINGLE: dict[str, list[Case]] = {
    "Dense": [
        (ROW, {"units": 3}),
        (STEPS, {"units": 4, "use_bias": False}),
        (IMAGE, {"units": 2, "activation": "silu"}),
    ],
    **{f"Conv{rank}D": convolutions(rank) for rank in (1, 2, 3)},
    **{f"Conv{rank}DTranspose": transposed(rank) for rank in (1, 2)},
    **{f"DepthwiseConv{rank}D": depthwise(rank) for rank in (1, 2)},
    **{f"SeparableConv{rank}D": separable(rank) for rank in (1, 2)},
    **{f"{name}Pooling{rank}D": pools(rank) for name in ("Max", "Average") for rank in (1, 2, 3)},
    **{f"Global{name}Pooling{rank}D": over_all(rank) for name in ("Max", "Average") for rank in (1, 2, 3)},
    "BatchNormalization": [(ROW, {}), (IMAGE, {"scale": False}), (IMAGE, {"axis": 1})],
    "LayerNormalization": [(ROW, {}), (IMAGE, {"axis": [2, 3]}), (STEPS, {"center": False}), (IMAGE, {"axis": 1})],
    "GroupNormalization": [(IMAGE, {"groups": 3}), (IMAGE, {"groups": -1, "scale": False}), (STEPS, {"groups": 5})],
    "RMSNormalization": [(ROW, {}), (STEPS, {"axis": -1}), (IMAGE, {"axis": [2, 3]})],
    "UnitNormalization": [(ROW, {}), (IMAGE, {"axis": [1, 2]})],
    "Normalization": [
        (IMAGE, {}),
        (IMAGE, {"axis": None}),
        (IMAGE, {"axis": [1, 3]}),
        (ROW, {"mean": 1.5, "variance": 2}),
    ],
    "Rescaling": [(IMAGE, {"scale": 1 / 255}), (IMAGE, {"scale": [1, 2, 3, 4, 5, 6], "offset": -1})],
    "LSTM": [*recurrent(), (STEPS, {"units": 2, "unit_forget_bias": False, "recurrent_activation": "hard_sigmoid"})],
    "GRU": [*recurrent(), (STEPS, {"units": 2, "reset_after": False})],
    "SimpleRNN": recurrent(),
    "Bidirectional": [
        (STEPS, inner("LSTM", units=3)),
        (STEPS, {**inner("GRU", units=3, return_sequences=True), "merge_mode": "sum"}),
        (STEPS, {**inner("SimpleRNN", units=2, use_bias=False), "merge_mode": "ave"}),
    ],
    "TimeDistributed": [
        (STEPS, inner("Dense", units=3)),
        (SPACE, inner("Conv2D", filters=3, kernel_size=2)),
        (SPACE, inner("Flatten")),
    ],
    "Flatten": [(IMAGE, {}), (ROW, {})],
    "Reshape": [(IMAGE, {"target_shape": [8, 54]}), (IMAGE, {"target_shape": [-1, 6]})],
    "Permute": [(IMAGE, {"dims": [3, 1, 2]}), (STEPS, {"dims": [2, 1]})],
    "RepeatVector": [(ROW, {"n": 4}), (ROW, {"n": 1})],
    "ZeroPadding1D": [(STEPS, {}), (STEPS, {"padding": [2, 3]}), (STEPS, {"padding": 2})],
    "ZeroPadding2D": [(IMAGE, {}), (IMAGE, {"padding": [[0, 1], [2, 3]]}), (IMAGE, {"padding": [1, 2]})],
    "Cropping1D": [(STEPS, {}), (STEPS, {"cropping": [2, 3]})],
    "Cropping2D": [(IMAGE, {"cropping": [[0, 1], [2, 3]]}), (IMAGE, {"cropping": 2})],
    "UpSampling1D": [(STEPS, {}), (STEPS, {"size": 3})],
    "UpSampling2D": [(IMAGE, {}), (IMAGE, {"size": [3, 1], "interpolation": "bilinear"})],
    "Activation": [(IMAGE, {"activation": "softmax"}), (ROW, {"activation": "hard_swish"})],
    "ReLU": [(ROW, {}), (IMAGE, {"max_value": 6, "negative_slope": 0.1, "threshold": 0.2})],
    "LeakyReLU": [(ROW, {}), (IMAGE, {"negative_slope": 0.2})],
    "PReLU": [(IMAGE, {}), (IMAGE, {"shared_axes": [1, 2]})],
    "ELU": [(ROW, {}), (IMAGE, {"alpha": 0.5})],
    "Softmax": [(ROW, {}), (IMAGE, {"axis": 2})],
    "Identity": [(ROW, {}), (IMAGE, {})],
    "Dropout": RATES,
    "AlphaDropout": RATES,
    "GaussianDropout": RATES,
    "GaussianNoise": [(ROW, {"stddev": 0.5}), (IMAGE, {"stddev": 1})],
    "SpatialDropout1D": [(STEPS, {"rate": 0.5}), (STEPS, {"rate": 0.1})],
    "SpatialDropout2D": [(IMAGE, {"rate": 0.5}), (IMAGE, {"rate": 0.1})],
}
SINGLE["Conv1D"].append((GRIDS[1], {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "causal"}))

TWO_KINDS = {
    "Add": [{}, {}],
    "Subtract": [{}, {}],
    "Multiply": [{}, {}],
    "Average": [{}, {}],
    "Maximum": [{}, {}],
    "Minimum": [{}, {}],
    "Concatenate": [{}, {"axis": 1}, {"axis": -2}],
    "Dot": [{"axes": 1}, {"axes": [2, 2]}, {"axes": -1}],
    "MultiHeadAttention": [
        {"num_heads": 2, "key_dim": 3},
        {"num_heads": 3, "key_dim": 4, "value_dim": 2, "output_shape": 7, "use_bias": False, "dropout": 0.1},
    ],
    "GroupQueryAttention": [
        {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2},
        {"head_dim": 2, "num_query_heads": 3, "num_key_value_heads": 1, "use_bias": False},
    ],
    "Attention": [{}, {"use_scale": True, "dropout": 0.2}],
    "AdditiveAttention": [{}, {"use_scale": False}],
}


def alone(kind: str, shape: tuple[int, ...], options: Options) -> Graph:
    return Graph(shape, (Layer("layer", kind, options),), "layer")


def on_two(kind: str, options: Options) -> Graph:
    """Return the layer on a sequence and on another one derived from it, of the same shape."""
    return Graph(
        (6, 5), (Layer("other", "Dense", {"units": 5}), Layer("layer", kind, options, (INPUT, "other"))), "layer"
    )


def embedding(options: Options) -> Graph:
    return Graph((6,), (Layer("layer", "Embedding", options),), "layer", vocabulary=options["input_dim"])


NAMED = (
    Layer("a/b", "Dense", {"units": 5}),
    Layer("A b", "Dense", {}, ("a/b",), shares="a/b"),
    Layer("_ä", "Dense", {"units": 2}, ("A b",)),
)
CASES = [
    ("Dense", Graph((6, 5), NAMED, "_ä")),
    *((kind, alone(kind, shape, options)) for kind, cases in SINGLE.items() for shape, options in cases),
    *((kind, on_two(kind, options)) for kind, cases in TWO_KINDS.items() for options in cases),
    ("Embedding", embedding({"input_dim": 20, "output_dim": 4})),
    ("Embedding", embedding({"input_dim": 9, "output_dim": 1, "mask_zero": True})),
]


NAMES = [f"{kind}-{number}" for number, (kind, _) in enumerate(CASES)]
KINDS = sorted(kind for kind, rule in RULES.items() if rule.public)
RECORDED = Path(__file__).with_name("keras_answers.json")
"""Parameters and output shape according to Keras, by name of a case; running this module with ``python -m`` writes
it.
"""
OURS = {"data_format"}
"""Options that Keras takes from a user's settings; Breakeven supports only channels last, Keras's own default."""


def test_every_kind_has_two_cases_at_least() -> None:
    kinds = [kind for kind, _ in CASES]
    assert set(kinds) == set(KINDS)
    assert all(kinds.count(kind) >= 2 for kind in kinds)


def recorded() -> dict[str, list[Any]]:
    answers: dict[str, list[Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return answers


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_shapes_are_keras_own(name: str) -> None:
    graph = CASES[NAMES.index(name)][1]
    assert [sum(layer.parameters for layer in count(graph)), list(output_shape(graph))] == recorded()[name]


@pytest.fixture(scope="module")
def answers() -> tuple[list[Truth], Defaults]:
    return truths([graph for _, graph in CASES], KINDS)


@pytest.fixture(scope="module")
def constructors(answers: tuple[list[Truth], Defaults]) -> Defaults:
    return answers[1]


@pytest.mark.tensorflow
def test_what_was_recorded_is_what_the_installed_keras_says(answers: tuple[list[Truth], Defaults]) -> None:
    told = dict(zip(NAMES, answers[0], strict=True))
    assert {name: [truth.parameters, list(truth.shape)] for name, truth in told.items()} == recorded()
    built = {name: truth.built for name, truth in told.items()}
    assert built == {name: (truth.parameters, truth.shape, "float32") for name, truth in told.items()}


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_keras_own(kind: str, constructors: Defaults) -> None:
    for name, option in RULES[kind].options.items():
        if name not in OURS and name in constructors[kind]:
            default = constructors[kind][name]
            assert option.default == (option.read(default[0]) if default else REQUIRED)


@pytest.mark.tensorflow
def test_options_that_keras_does_not_know_are_few(constructors: Defaults) -> None:
    unknown = {(kind, name) for kind in KINDS for name in RULES[kind].options if name not in constructors[kind]}
    assert unknown == {("LayerNormalization", "rms_scaling")}


if __name__ == "__main__":
    found, _ = truths([graph for _, graph in CASES])
    lines = (json.dumps([truth.parameters, truth.shape]) for truth in found)
    said = ",\n".join(f'"{name}": {line}' for name, line in zip(NAMES, lines, strict=True))
    RECORDED.write_text(f"{{\n{said}\n}}\n", encoding="utf-8")
