"""Published networks are rebuilt faithfully, and their rows read by the stated rules."""

from dataclasses import replace

import pytest

from benchmarks.evidence import build_vendor, vendor_limits, vendor_networks
from benchmarks.evidence.rows import FOLDER, NetworkRow, read_csv
from core.networks.architecture.counts import count
from core.networks.architecture.graph import Graph, Layer
from core.networks.families import Network

needs_files = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published measurements are not on this machine")

PARAMETERS_M = {
    "ResNet-18": 11.69, "ResNet-34": 21.80, "ResNet-50": 25.56, "ResNet-50 v1": 25.56, "ResNet-101": 44.55,
    "ResNet-152": 60.19, "ResNet-152 v1": 60.19, "ResNeXt-101-32x4d": 44.18, "SE-ResNeXt-101-32x4d": 48.96,
    "VGG-11": 132.86, "VGG-13": 133.05, "VGG-16": 138.36, "VGG-19": 143.67, "AlexNet": 61.8,
    "VGG-11 BN": 132.87, "VGG-13 BN": 133.05, "VGG-16 BN": 138.37, "VGG-19 BN": 143.68,
    "Inception-v3": 23.83, "EfficientNet-B0": 5.29, "EfficientNet-B4": 19.34, "U-Net 572": 34.5,
    "BERT-base": 109.5, "BERT-large": 335.1, "BERT-distilled": 66.4,
}  # fmt: skip
"""Parameters in millions as their authors or torchvision state them, without running averages of normalisations."""
GIGAFLOPS = {
    "ResNet-50": 8.2, "ResNet-50 v1": 7.7, "ResNeXt-101-32x4d": 16.0, "VGG-16": 31.0, "Inception-v3": 11.4,
    "EfficientNet-B0": 0.78, "EfficientNet-B4": 8.8, "U-Net 572": 315.0,
}  # fmt: skip
"""Forward GFLOPs, a multiply-add as 2: twice the multiply-adds of torchvision and the papers."""


@pytest.mark.parametrize("name", build_vendor.NAMES)
def test_a_rebuilt_network_has_the_weights_of_its_original(name: str) -> None:
    for training in (False, True):
        parameters = sum(layer.parameters for layer in build_vendor.network(name, training).layers)
        assert parameters / 1e6 == pytest.approx(PARAMETERS_M[name], rel=0.011)


@pytest.mark.parametrize("name", GIGAFLOPS)
def test_a_rebuilt_network_does_the_arithmetic_of_its_original(name: str) -> None:
    layers = build_vendor.network(name, False).layers
    assert sum(layer.forward_flops for layer in layers) / 1e9 == pytest.approx(GIGAFLOPS[name], rel=0.025)


def kinds(network: Network) -> set[str]:
    return {layer.kind for layer in network.graph.layers}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["VGG-16", "AlexNet", "EfficientNet-B0", "U-Net 572", "BERT-base"])
def test_dropout_runs_in_training_alone(name: str) -> None:
    assert "Dropout" in kinds(build_vendor.network(name, True))
    assert "Dropout" not in kinds(build_vendor.network(name, False))


def test_a_convolution_in_groups_does_one_groups_share_of_the_work() -> None:
    def grouped(groups: int) -> Graph:
        options = {"filters": 64, "kernel_size": 3, "padding": "same", "use_bias": False, "groups": groups}
        return Graph((14, 14, 64), (Layer("c", "Conv2D", options),), "c")

    (whole,), (parts,) = count(grouped(1)), count(grouped(32))
    assert parts.parameters * 32 == whole.parameters
    assert parts.forward_flops * 32 == whole.forward_flops
    assert parts.weight_gradient_flops * 32 == whole.weight_gradient_flops


@pytest.mark.parametrize(("printed", "relative"), [("7.36", 0.005 / 7.36), ("58.0", 0.5 / 58), ("91.8", 0.05 / 91.8)])
def test_the_last_printed_digit_bounds_what_is_known(printed: str, relative: float) -> None:
    assert vendor_networks._relative(printed) == pytest.approx(relative)


EAGER = (vendor_networks.AVIK, vendor_networks.LAMBDA)


@needs_files
def test_every_row_of_the_files_is_used_or_left_out_by_a_rule() -> None:
    used, left_out = vendor_networks.vendor_rows(), vendor_networks.vendor_left_out()
    lines = {name: len(read_csv(FOLDER / name)) for name in vendor_networks.FILES}
    # each line of avik-pal's holds inference and training
    assert len(used) + sum(each.rows for each in left_out) == sum(lines.values()) + lines[vendor_networks.AVIK_FILE]
    assert len(set(used)) == len(used)


@needs_files
def test_rows_are_left_out_by_the_rule_that_fits_them() -> None:
    left_out = {(each.source.split()[-1], each.rule): each.rows for each in vendor_networks.vendor_left_out()}
    assert left_out["MxNet", vendor_networks.SUSPICIOUS] == 3
    assert left_out["TensorFlow", vendor_networks.FALLING] == 1  # U-Net at batch 1, faster than at 2 and 4
    assert left_out["PyTorch", vendor_networks.DGX_2H] == 12
    assert left_out["PyTorch", vendor_networks.NOT_REBUILT] == 11
    assert left_out["2017", vendor_networks.REAL_DATA] == 23
    assert not any(rule == vendor_networks.IMPOSSIBLE for _, rule in left_out)


def of(source: str, name: str, mode: str, gpu: str, precision: str) -> list[NetworkRow]:
    return [
        row
        for row in vendor_networks.vendor_rows()
        if row.source.endswith(source)
        and (row.workload.network.name, row.workload.mode, row.gpu) == (name, mode, gpu)
        and row.target.precision == precision
    ]


@needs_files
def test_rows_mean_what_their_tables_say() -> None:
    (mixed,) = of(" TensorFlow", "BERT-large", "train", "V100-16GB-SXM2", "mixed_float16")
    (single,) = of(" TensorFlow", "BERT-large", "train", "V100-16GB-SXM2", "float32")
    assert (mixed.batch, single.batch) == (4, 2)  # printed as “4,2”
    assert mixed.step_ms == pytest.approx(4e3 / 29.74)
    (on_dgx1,) = of("MxNet", "ResNet-50", "train", "V100-16GB-SXM2", "float32")
    assert (on_dgx1.batch, on_dgx1.workload.optimizer) == (96, "momentum")
    assert on_dgx1.step_ms == pytest.approx(96e3 / 384)
    (hopper,) = of("deeplearning-benchmark", "BERT-base", "train", "H100-SXM", "float32")
    assert hopper.batch == 172
    assert vendor_limits.implied_tflops(hopper) > 67  # more than float32 without TF32 can be


@needs_files
def test_every_row_names_a_known_card_and_its_build_on_a_server() -> None:
    for row in vendor_networks.vendor_rows():
        assert vendor_limits.peak_tflops(row) > 0
        assert (row.conditions.under_fit, row.host) == (False, "server")
        # a transformer in a graph is the sum of its operations
        small = row.kind == "transformer" and row.target.execution == "graph"
        assert row.conditions.build == ("keras" if small else "fused")
        assert row.conditions.fed == row.source.startswith("NVIDIA DeepLearningExamples TensorFlow")
        assert row.target.execution in ("graph", "xla", "eager")
        assert (row.target.execution == "eager") == (("PyTorch" in row.source) or row.source in EAGER)
        assert 0 < row.resolution_ms < 0.02 * row.step_ms


@needs_files
def test_a_step_faster_than_the_card_is_refused() -> None:
    (row,) = of("MxNet", "ResNet-50", "train", "V100-16GB-SXM2", "float32")
    assert not vendor_limits.beyond_the_card(row)
    at_peak_ms = row.step_ms * vendor_limits.implied_tflops(row) / vendor_limits.peak_tflops(row)
    assert not vendor_limits.beyond_the_card(replace(row, step_ms=0.9 * at_peak_ms))  # convolutions in cheaper forms
    assert vendor_limits.beyond_the_card(replace(row, step_ms=0.25 * at_peak_ms))
