"""Transformer encoders: names, BERT's sizes, pre- and post-norm, and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.networks.families.transformer import Transformer

DEFAULTS = {choice.name: choice.default for choice in Transformer.choices}


@given(
    depth=st.integers(1, 4), heads=st.integers(1, 8), size=st.integers(8, 32), sequence=st.integers(1, 64),
    ratio=st.integers(1, 8), words=st.integers(2, 1_000), outputs=st.integers(1, 100),
    norm=st.sampled_from(["pre", "post"]),
)  # fmt: skip
def test_parameters_follow_the_textbook_and_the_name_reads_back(
    depth: int, heads: int, size: int, sequence: int, ratio: int, words: int, outputs: int, norm: str
) -> None:
    d = heads * size
    network = Transformer.model_validate(
        {"depth": depth, "width": d, "heads": heads, "sequence": sequence, "feed_forward": ratio, "words": words,
         "outputs": outputs, "norm": norm}
    )  # fmt: skip
    assert Transformer.from_name(network.name) == network
    encoder = 4 * (d * d + d) + 2 * ratio * d * d + ratio * d + d + 2 * 2 * d
    last = 2 * d if norm == "pre" else 0
    assert network.parameters == words * d + depth * encoder + last + d * outputs + outputs
    assert (network.input_shape, network.vocabulary, network.classes) == ((sequence,), words, outputs)
    assert network.label_shape == ()
    assert network.from_logits == (outputs > 1)


@pytest.mark.parametrize(("name", "millions"), [("bert-tiny-like", 4.4), ("bert-mini-like", 11.3),
                                                ("bert-small-like", 29.1), ("bert-base-like", 110.1)])  # fmt: skip
def test_bert_like_networks_have_its_sizes_but_for_positions_segments_and_pooler(name: str, millions: float) -> None:
    """Compare with the parameters of Turc et al. 2019."""
    network = Transformer.from_name(name)
    assert network.name == name
    positions_segments_norm = (512 + 2 + 2) * network.width
    pooler = network.width * (network.width + 1)
    assert network.parameters + positions_segments_norm + pooler == pytest.approx(millions * 1e6, rel=0.015)


def test_pre_norm_stands_before_each_part_and_once_at_the_end() -> None:
    pre, post = (Transformer.from_choices({**DEFAULTS, "depth": 1, "norm": norm}) for norm in (0, 1))
    kinds = {network.norm: [layer.kind for layer in network.graph.layers[1:-2]] for network in (pre, post)}
    attention, norm, dense = "MultiHeadAttention", "LayerNormalization", "Dense"
    assert kinds["pre"] == [norm, attention, "Add", norm, dense, dense, "Add", norm]
    assert kinds["post"] == [attention, "Add", norm, dense, dense, "Add", norm]
    assert "-post-" in post.name
    assert "-post-" not in pre.name


@pytest.mark.parametrize("norm", [0, 1])
def test_residuals_go_around_attention_and_feed_forward(norm: int) -> None:
    network = Transformer.from_choices({**DEFAULTS, "depth": 2, "norm": norm})
    layers = {layer.name: layer for layer in network.graph.layers}
    into_second = "layer_1_add_2" if norm == 0 else "layer_1_norm_2"
    assert set(layers["layer_2_add_1"].inputs) == {into_second, "layer_2_attention"}
    kept = "layer_2_add_1" if norm == 0 else "layer_2_norm_1"
    assert set(layers["layer_2_add_2"].inputs) == {kept, "layer_2_dense_2"}


@pytest.mark.parametrize(("width", "heads", "near"), [(130, 4, "128 or 132"), (9, 8, "8 or 16"), (10, 16, "16")])
def test_d_model_must_be_a_multiple_of_the_heads(width: int, heads: int, near: str) -> None:
    with pytest.raises(ValidationError, match=f"{near} would be"):
        Transformer.from_choices({**DEFAULTS, "width": width, "heads": heads})
