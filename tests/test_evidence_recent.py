"""Published steps after 2020: each is of a card and a network that are known, under stated conditions."""

from collections import Counter

import pytest

from benchmarks.evidence import build_vendor, recent_networks, vendor_limits
from core.hardware.catalogue import catalogue
from core.hardware.host import kinds

needs_files = pytest.mark.skipif(not recent_networks.RECENT.exists(), reason="../shared/data/published_2020 is absent")

VIT_M = {("tiny", 16): 5.7, ("small", 16): 22.1, ("base", 16): 86.6, ("base", 32): 88.2, ("large", 16): 304.3}
"""Parameters in millions as timm states them, with the class token and position embeddings that are left out here."""


@pytest.mark.parametrize(("size", "patch"), VIT_M)
def test_a_rebuilt_vision_transformer_has_the_weights_of_its_original(size: str, patch: int) -> None:
    network = build_vendor.vision_transformer(size, patch, 224)
    parameters = sum(layer.parameters for layer in network.layers)
    assert parameters / 1e6 == pytest.approx(VIT_M[size, patch], rel=0.03)


@needs_files
def test_every_row_has_a_known_card_and_host_and_is_possible() -> None:
    rows = recent_networks.recent_rows()
    assert len(rows) > 1_500
    for row in rows:
        assert row.gpu in catalogue()
        assert row.host in kinds()
        assert row.step_ms > 0
        assert not vendor_limits.beyond_the_card(row)
        assert row.workload.training == (row.workload.mode == "train")


@needs_files
def test_compiled_rows_run_compiled_and_eager_ones_eagerly_in_a_fused_build() -> None:
    found = Counter((row.target.execution, row.conditions.build) for row in recent_networks.recent_rows())
    assert set(found) == {
        ("eager", "fused"),
        ("xla", "fused"),
        ("graph", "fused"),
        ("graph", "keras"),
        ("xla", "keras"),
    }
    assert found["xla", "keras"] == 2  # keras-io's page, on TensorFlow and on JAX


@needs_files
def test_images_come_as_the_source_says_and_attention_is_one_kernel_where_its_software_has_one() -> None:
    timm = [row for row in recent_networks.recent_rows() if row.source == "huggingface/pytorch-image-models"]
    assert 0 < sum(row.conditions.channels_first for row in timm) < len(timm)
    assert {row.conditions.separate_attention for row in timm} == {False, True}
    lambdal = [row for row in recent_networks.recent_rows() if row.source == "lambdal/deeplearning-benchmark"]
    assert all(row.conditions.separate_attention and not row.conditions.channels_first for row in lambdal)


@needs_files
def test_what_is_left_out_is_counted_by_rule() -> None:
    left = Counter()
    for each in recent_networks.recent_left_out():
        left[each.rule] += each.rows
    assert left[recent_networks.OWN_KERNELS] > 100
    assert left[recent_networks.MANY_GPUS] > 0
    assert recent_networks.IMPOSSIBLE not in left
