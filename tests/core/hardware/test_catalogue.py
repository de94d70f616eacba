"""The catalogue: required fields, physical limits, and lookup by the names that tools print."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.hardware.catalogue import (
    FILE,
    CardPrice,
    GpuSpec,
    UnknownGpu,
    catalogue,
    checked_on,
    find_gpu,
    shared,
)

CARDS = catalogue()
EACH = pytest.mark.parametrize("spec", CARDS.values(), ids=lambda spec: spec.name)
TENSOR_CORES = ("Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell")
HALF_WIDTH = ("Volta", "Turing", "CDNA 2")
"""Architectures whose multiprocessors add 64 products per clock; P100 and A100 do too, the others 128."""
HAS_TF32 = ("Ampere", "Ada", "Hopper", "Blackwell")


def test_the_shipped_file_has_the_cards_asked_for_with_every_value_and_its_source():
    data = json.loads(FILE.read_text(encoding="utf-8"))
    date.fromisoformat(checked_on())
    names = [row["name"] for row in data["gpus"]]
    assert len(names) == len(set(names)) == len(CARDS)
    for row in data["gpus"]:
        facts = {key: fact for key, fact in row.items() if key not in ("name", "title", "aliases", "vendor", "price")}
        assert all(set(fact) == {"value", "source"} for fact in facts.values())
    a100 = {f"A100-{memory}GB-{form}" for memory in (40, 80) for form in ("PCIe", "SXM")}
    others = {"T4", "V100-16GB-SXM2", "P100-PCIe", "A10G", "L4", "L40S", "H100-PCIe", "H100-SXM", "H200", "B200"}
    consumer = {f"RTX-{number}" for number in (3060, 3070, 3080, 3090, 4060, 4070, 4080, 4090, 5070, 5080, 5090)}
    assert a100 | others | consumer | {"Apple-M1", "Apple-M4-Max", "MI300X"} <= set(CARDS)


@EACH
def test_every_field_has_a_source(spec: GpuSpec):
    optional = {"tf32_tflops", "half_tflops", "tdp_w", "l2_mb"}
    fields = set(GpuSpec.model_fields) - {"name", "title", "aliases", "vendor", "price", "sources", "own"}
    given = {field for field in fields if getattr(spec, field) is not None}
    assert given <= set(spec.sources)
    assert fields - given <= optional
    assert "from memory" not in " ".join(spec.sources.values())
    assert not spec.own


@EACH
def test_peaks_are_dense_and_in_the_proportions_of_hardware(spec: GpuSpec):
    """Compare rates: one with sparsity, or with fp16 sums on GeForce, would be twice too high against the others."""
    fp32, tf32, half = spec.fp32_tflops, spec.tf32_tflops, spec.half_tflops
    assert (half is not None) == (spec.architecture.startswith(TENSOR_CORES) or spec.vendor == "AMD")
    assert (tf32 is not None) == spec.architecture.startswith(HAS_TF32)
    if tf32 is not None and half is not None:
        assert half == pytest.approx(2 * tf32, rel=0.05)
        assert fp32 <= tf32 <= 15 * fp32
    if half is not None:
        assert 1.9 * fp32 <= half <= 30 * fp32
    if spec.architecture in ("Ampere", "Ampere, HBM", "Blackwell", "Blackwell, HBM"):
        assert spec.architecture.endswith(", HBM") == (half > 10 * fp32)  # 16 on A100 and 28 on B200, 2 to 4 on others
    if "GeForce RTX" in spec.title and spec.architecture != "Turing":
        assert half == pytest.approx(2 * fp32, rel=0.01)
        assert tf32 == pytest.approx(fp32, rel=0.01)


@EACH
def test_the_peak_in_float32_implies_a_clock_that_exists(spec: GpuSpec):
    """Check the implied clock: a wrong count or width of multiprocessors would need a clock that no card has."""
    wide = 64 if spec.architecture in HALF_WIDTH or spec.name.startswith(("P100", "A100")) else 128
    assert 1.0 <= 1e3 * spec.fp32_tflops / (2 * wide * spec.multiprocessors) <= 3.2  # GHz


@EACH
def test_the_cache_is_known_and_of_its_generation(spec: GpuSpec):
    if spec.vendor == "Apple":
        assert spec.l2_mb is None
        assert spec.sources["l2_mb"].startswith("left out: ")
        return
    assert spec.sources["multiprocessors"]
    assert spec.sources["l2_mb"]
    large = spec.architecture.startswith(("Ada", "Hopper", "Blackwell", "Ampere, HBM", "CDNA 3"))
    assert (24 if large else 2) <= spec.l2_mb <= (128 if large else 8)


@EACH
def test_memory_links_and_power_are_physically_plausible(spec: GpuSpec):
    assert 8 <= spec.memory_gb <= 200
    assert 60 <= spec.bandwidth_gb_s <= 8_000
    assert 0.01 <= spec.memory_gb / spec.bandwidth_gb_s <= 0.35  # seconds to read the memory once
    assert 5 <= 1e3 * spec.fp32_tflops / spec.bandwidth_gb_s <= 110  # FLOP a byte at the ridge of fp32
    assert spec.link_gb_s <= spec.bandwidth_gb_s / 2
    lanes = {"PCIe 3.0 x16": 15.75, "PCIe 4.0 x8": 15.75, "PCIe 4.0 x16": 31.5, "PCIe 5.0 x16": 63.0}
    assert spec.link_gb_s < lanes.get(spec.link, spec.bandwidth_gb_s)
    assert 1 <= spec.launch_us <= 4
    if spec.tdp_w is not None:
        assert 0.03 <= spec.fp32_tflops / spec.tdp_w <= 0.45
        assert spec.tdp_w <= (1_000 if "SXM" in spec.title else 750)


def test_known_numbers_stand_as_their_makers_state_them():
    a100, h100, t4 = CARDS["A100-80GB-SXM"], CARDS["H100-SXM"], CARDS["T4"]
    assert (a100.fp32_tflops, a100.tf32_tflops, a100.half_tflops, a100.bandwidth_gb_s) == (19.5, 156, 312, 2039)
    assert (h100.fp32_tflops, h100.half_tflops, h100.bandwidth_gb_s, h100.tdp_w) == (67, 989.5, 3350, 700)
    assert (t4.fp32_tflops, t4.tf32_tflops, t4.half_tflops, t4.bandwidth_gb_s) == (8.1, None, 65, 320)
    chips = [(card.multiprocessors, card.l2_mb) for card in (t4, a100, h100, CARDS["L4"])]
    assert chips == [(40, 4), (108, 40), (132, 50), (58, 48)]


def test_an_sxm_card_is_no_slower_than_its_pcie_sister():
    for pcie in [spec for spec in CARDS.values() if spec.name.endswith("-PCIe") and spec.architecture != "Pascal"]:
        sxm = next(CARDS[name] for end in ("-SXM", "-SXM2") if (name := pcie.name.replace("-PCIe", end)) in CARDS)
        assert sxm.fp32_tflops >= pcie.fp32_tflops
        assert sxm.bandwidth_gb_s >= pcie.bandwidth_gb_s
        assert sxm.tdp_w > pcie.tdp_w


def test_launch_spacing_is_measured_where_it_was_and_says_so_where_it_was_not():
    measured = {
        spec.name: spec.launch_us for spec in CARDS.values() if spec.sources["launch_us"].startswith("measured")
    }
    assert measured["A100-80GB-SXM"] == 2.7
    assert (measured["H200"], measured["A40"], measured["L40"]) == (2.5, 2.05, 1.6)
    others = [spec for spec in CARDS.values() if spec.name not in measured]
    assert others
    assert all(spec.assumed("launch_us") for spec in others)
    assert CARDS["T4"].link_gb_s == shared().links["PCIe 3.0 x16"].value == 12.35


def test_prices_are_dated_and_not_of_the_future():
    priced = [spec.price for spec in CARDS.values() if spec.price]
    assert len(priced) >= 10
    assert all(price.dated <= checked_on() and 0.1 < price.per_hour < 20 and price.source for price in priced)
    with pytest.raises(ValidationError, match="2026-11-01"):
        CardPrice(per_hour=1.0, currency="USD", dated="last week", source="a page")


@EACH
def test_a_card_is_found_by_everything_it_is_called(spec: GpuSpec):
    for name in (spec.name, spec.title, *spec.aliases):
        assert find_gpu(name, CARDS) is spec
        assert find_gpu(f"  {name.upper().replace('-', ' ')} ", CARDS) is spec


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("a100 80gb sxm", "A100-80GB-SXM"),
        ("A100 SXM 80 GB", "A100-80GB-SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-16GB-SXM2"),
        ("Tesla P100-PCIE-16GB", "P100-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("rtx4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("A10", "A10"),
        ("a10g", "A10G"),
        ("L40", "L40"),
        ("Apple M1", "Apple-M1"),
        ("m1 max", "Apple-M1-Max"),
    ],
)
def test_names_as_tools_and_people_write_them(printed: str, name: str):
    assert find_gpu(printed, CARDS).name == name


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("v100", ["V100-16GB-PCIe", "V100-32GB-PCIe", "V100-16GB-SXM2", "V100-32GB-SXM2"]),
        ("H100 80GB", ["H100-PCIe", "H100-SXM"]),
        ("A100 PCIe", ["A100-40GB-PCIe", "A100-80GB-PCIe"]),
    ],
)
def test_a_name_that_fits_several_is_answered_with_all_of_them(asked: str, offered: list[str]):
    with pytest.raises(UnknownGpu) as error:
        find_gpu(asked, CARDS)
    assert all(name in str(error.value) for name in offered)
    assert str(error.value).startswith(f"“{asked}” fits several")
    with pytest.raises(UnknownGpu, match=r"\d+ others\.$"):  # more than can be read
        find_gpu("rtx", CARDS)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090"),
        ("RTX 4070 Ti", "RTX-4070"),
        ("NVIDIA H200 NVL", "H200"),
        ("A110-80GB-SXM", "A100-80GB-SXM"),
        ("rtx 4O90", "RTX-4090"),
    ],
)
def test_another_card_is_not_taken_for_its_neighbour_but_offered(asked: str, nearest: str):
    with pytest.raises(UnknownGpu, match="did you mean") as error:
        find_gpu(asked, CARDS)
    assert nearest in str(error.value)


@pytest.mark.parametrize("asked", ["", "   ", "GPU", "Radeon", "x" * 5000])
def test_what_resembles_nothing_is_told_where_the_names_are(asked: str):
    with pytest.raises(UnknownGpu, match="“gpus” lists"):
        find_gpu(asked, CARDS)


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_any_text_is_a_card_or_a_sentence(text: str):
    try:
        said = find_gpu(text, CARDS).name
    except UnknownGpu as error:
        said = str(error)
    assert said in CARDS or said.endswith((".", "?"))
    assert len(said) < 400
