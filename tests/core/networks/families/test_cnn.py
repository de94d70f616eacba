"""Convolutional networks: names, published sizes of known ones, halving of images, and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.networks.architecture.counts import shapes
from core.networks.families.cnn import LENET5, Cnn

PLAIN = {"depth": 2, "width": 32, "layout": 0, "kernel": 3, "image": 28, "channels": 1, "batch_norm": 0, "pooling": 1,
         "classes": 10}  # fmt: skip


@given(
    layout=st.sampled_from(["plain", "residual"]), image=st.integers(8, 96), channels=st.integers(1, 4),
    depth=st.integers(1, 12), width=st.integers(4, 32), kernel=st.integers(1, 11), batch_norm=st.booleans(),
    pooling=st.sampled_from(["none", "max", "average", "strides"]), outputs=st.integers(1, 100),
)  # fmt: skip
def test_a_name_reads_back_and_what_it_names_can_be_counted(**sizes) -> None:
    network = Cnn(**sizes)
    assert Cnn.from_name(network.name) == network
    assert Cnn.from_name(network.name.upper()) == network
    assert network.input_shape == (network.image, network.image, network.channels)
    assert (network.classes, network.label_shape) == (network.outputs, ())
    assert network.from_logits == (network.outputs > 1)
    assert sum(network.stages) == network.depth
    convolutions = [layer for layer in network.graph.layers if layer.kind == "Conv2D"]
    shortcuts = [layer for layer in convolutions if "shortcut" in layer.name]
    each = 2 if network.layout == "residual" else 1
    stem = network.layout == "residual"
    assert len(convolutions) == each * network.depth + len(shortcuts) + stem


def test_lenet5_and_resnet20_have_their_published_parameters() -> None:
    network = Cnn.from_name("LeNet-5")
    assert network.name == "lenet5"
    assert network.parameters == 61_706  # 156 + 2,416 + 48,120 + 10,164 + 850
    assert network.flops_per_sample(False) > 2 * 416_000  # 416,520 multiply-adds in its convolutions and Dense layers
    # He et al.'s table 6: 0.27 million, with shortcuts that have no weights; the two projections add 2,560 weights
    assert Cnn.from_name("resnet20").parameters == pytest.approx(0.27e6 + 2_560, rel=0.01)


@pytest.mark.parametrize(
    ("name", "blocks", "convolutions"), [("resnet8", 1, 7), ("resnet20", 3, 19), ("resnet56", 9, 55)]
)
def test_resnets_are_those_of_he_et_al(name: str, blocks: int, convolutions: int) -> None:
    network = Cnn.from_name(name)
    assert network.stages == (blocks,) * 3
    kinds = [layer for layer in network.graph.layers if layer.kind == "Conv2D" and "shortcut" not in layer.name]
    assert len(kinds) == convolutions
    maps = [shape for shape in shapes(network.graph).values() if len(shape) == 3]
    assert maps[-1] == (8, 8, 64)


@pytest.mark.parametrize(
    ("image", "depth", "sides"), [(28, 2, [14, 7]), (32, 9, [16, 8, 4]), (64, 4, [32, 16, 8, 4]), (13, 5, [6])]
)
def test_images_are_halved_while_they_are_large_enough(image: int, depth: int, sides: list[int]) -> None:
    network = Cnn.from_choices({**PLAIN, "image": image, "depth": depth})
    pools = [layer.name for layer in network.graph.layers if layer.kind == "MaxPooling2D"]
    assert [shapes(network.graph)[name][0] for name in pools] == sides
    filters = [layer.options["filters"] for layer in network.graph.layers if layer.kind == "Conv2D"]
    assert filters[0] == 32
    assert filters[-1] == 32 * 2 ** (len(sides) - 1)


def test_strides_halve_at_the_start_of_each_stage_but_the_first_and_without_pooling_nothing_is_halved() -> None:
    network = Cnn.from_choices({**PLAIN, "pooling": 3, "depth": 4})
    strides = [layer.options.get("strides", (1, 1))[0] for layer in network.graph.layers if layer.kind == "Conv2D"]
    assert (network.stages, strides) == ((1, 1, 2), [1, 2, 2, 1])
    assert shapes(network.graph)["block_4_conv"][0] == 7
    network = Cnn.from_choices({**PLAIN, "pooling": 0, "depth": 5})
    assert network.name == "cnn-28x28x1-32x5-k3-10"
    assert {shape[:2] for shape in shapes(network.graph).values() if len(shape) == 3} == {(28, 28)}
    assert {layer.options["filters"] for layer in network.graph.layers if layer.kind == "Conv2D"} == {32}


def test_words_become_kinds() -> None:
    network = Cnn.from_choices({**PLAIN, "layout": 1, "batch_norm": 1, "pooling": 2, "classes": 1})
    assert (network.layout, network.batch_norm, network.pooling) == ("residual", True, "average")
    assert network.name == "cnn-28x28x1-32x2-k3-residual-bn-average-1"
    with pytest.raises(ValueError, match="Pooling is 4"):
        Cnn.from_choices({**PLAIN, "pooling": 4})


def test_what_is_too_large_altogether_unknown_or_lenet5_of_other_sizes_is_refused() -> None:
    with pytest.raises(ValidationError, match="parameters"):
        Cnn.from_name("cnn-512x512x3-2048x64-k11-residual-strides-10")
    with pytest.raises(ValidationError, match="of its own"):
        Cnn(**LENET5 | {"width": 12})
    with pytest.raises(ValueError, match=r"ResNet-50 .*resnet20"):
        Cnn.from_name("resnet50")
