"""Kernels are read from XLA's text: recorded programs of six chips, and texts made by hand with a known answer."""

import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.networks.families import network_from_name
from core.traces.program import CLASSES, CompiledKernel, layer_of, read_kernels

FOLDER = Path(__file__).parents[2] / "fixtures" / "hlo"
RECORDED = {
    "784_train_H100-SXM": {"product": 8, "fusion": 17, "copy": 5},
    "784_train_T4": {"product": 8, "fusion": 14, "copy": 4},
    "lenet5_train_V100-16GB-SXM2": {"product": 9, "convolution": 5, "fusion": 27, "copy": 8},
    "lenet5_infer_B200": {"product": 3, "convolution": 2, "fusion": 6},
    "lstm_infer_A100-80GB-SXM": {"product": 57, "fusion": 144, "copy": 1},
    "transformer_infer_RTX-4090": {"product": 13, "fusion": 38},
}
"""Programs of jaxlib 0.10.2: the name is network, mode and card; the counts were compared with the text by hand."""


def recorded(name: str) -> tuple[CompiledKernel, ...]:
    return read_kernels(gzip.decompress((FOLDER / f"{name}.txt.gz").read_bytes()).decode())


def counted(kernels: tuple[CompiledKernel, ...]) -> dict[str, int]:
    numbers = Counter[str]()
    for kernel in kernels:
        numbers[kernel.kind] += kernel.times
    return dict(numbers)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_programs_have_the_kernels_that_their_text_shows(name: str) -> None:
    assert counted(recorded(name)) == RECORDED[name]


def test_every_recorded_program_is_tried() -> None:
    assert {path.name.removesuffix(".txt.gz") for path in FOLDER.iterdir()} == set(RECORDED)
    assert {kind for counts in RECORDED.values() for kind in counts} <= set(CLASSES)


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("784_train_T4", "784-512-512-10"),
        ("784_train_H100-SXM", "784-512-512-10"),
        ("lenet5_infer_B200", "lenet5"),
        ("lenet5_train_V100-16GB-SXM2", "lenet5"),
    ],
)
def test_products_count_as_our_own_layers_do(name: str, network: str) -> None:
    """Ours count biases and activations, too; the compiler pads some products."""
    flops = sum(kernel.times * kernel.flops for kernel in recorded(name))
    own = 32 * network_from_name(network).flops_per_sample("train" in name)
    assert flops == pytest.approx(own, rel=0.03)


def test_a_loop_launches_its_kernels_once_per_trip() -> None:
    inside = [kernel for kernel in recorded("lstm_infer_A100-80GB-SXM") if kernel.loop]
    assert {kernel.times % 28 for kernel in inside} == {0}
    assert any("lstm_1" in kernel.layer for kernel in inside)


def test_halves_and_layers_are_seen() -> None:
    kernels = recorded("transformer_infer_RTX-4090")
    products = [kernel for kernel in kernels if kernel.kind == "product"]
    assert {kernel.layer for kernel in products if not kernel.half} == {"outputs"}, "Keras keeps logits in float32"
    assert any(kernel.layer.startswith("layer_1_attention") for kernel in products)
    kernels = recorded("lenet5_train_V100-16GB-SXM2")
    assert {k.layer.split(",")[0] for k in kernels if k.kind == "convolution"} == {"conv_1", "conv_2"}


def program(entry: str, rest: str = "") -> str:
    return f"HloModule made, is_scheduled=true\n\n{rest}\nENTRY %main (a: f32[8]) -> f32[8] {{\n{entry}\n}}\n"


TABLE = """%fused (p0: f32[1000,64], p1: s32[8]) -> f32[8,64] {
  %p0 = f32[1000,64]{1,0} parameter(0)
  %p1 = s32[8]{0} parameter(1)
  ROOT %g = f32[8,64]{1,0} gather(%p0, %p1), offset_dims={1}
}
"""
UPDATE = """%fused (p0: f32[1000,64], p1: f32[1,64], p2: s32[]) -> f32[1000,64] {
  %p0 = f32[1000,64]{1,0} parameter(0)
  %p1 = f32[1,64]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  ROOT %u = f32[1000,64]{1,0} dynamic-update-slice(%p0, %p1, %p2, %p2)
}
"""


def test_a_fusion_that_takes_rows_or_updates_one_in_place_moves_no_more() -> None:
    entry = """  %t = f32[1000,64]{1,0} parameter(0)
  %i = s32[8]{0} parameter(1)
  ROOT %f = f32[8,64]{1,0} fusion(%t, %i), kind=kLoop, calls=%fused"""
    (rows,) = read_kernels(program(entry, TABLE))
    assert rows.bytes == 2 * 8 * 64 * 4 + 8 * 4
    entry = """  %t = f32[1000,64]{1,0} parameter(0)
  %r = f32[1,64]{1,0} parameter(1)
  %i = s32[] parameter(2)
  ROOT %f = f32[1000,64]{1,0} fusion(%t, %r, %i), kind=kLoop, calls=%fused"""
    (update,) = read_kernels(program(entry, UPDATE))
    assert update.bytes == 2 * 64 * 4 + 4


@pytest.mark.parametrize(
    ("call", "kind", "flops"),
    [
        ('custom-call(%x, %w), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":'
         '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}',
         "product", 2 * 32 * 10 * 64),
        ('custom-call(%x, %w), custom_call_target="topk"', "library", 0),
    ],
)  # fmt: skip
def test_calls_of_libraries(call: str, kind: str, flops: int) -> None:
    entry = f"""  %x = f32[32,64]{{1,0}} parameter(0)
  %w = f32[64,10]{{1,0}} parameter(1)
  ROOT %y = (f32[32,10]{{1,0}}, s8[1024]{{0}}) {call}"""
    (kernel,) = read_kernels(program(entry))
    assert (kernel.kind, kernel.flops) == (kind, flops)


@pytest.mark.parametrize("target", ["Forward", "BackwardInput", "BackwardFilter"])
def test_a_convolution_and_its_gradients_multiply_alike(target: str) -> None:
    image, filters, result = "f32[4,8,8,16]", "f32[3,3,16,32]", "f32[4,8,8,32]"
    shapes = {"Forward": (image, filters, result), "BackwardInput": (result, filters, image),
              "BackwardFilter": (image, result, filters)}[target]  # fmt: skip
    entry = f"""  %x = {shapes[0]}{{3,2,1,0}} parameter(0)
  %w = {shapes[1]}{{3,2,1,0}} parameter(1)
  ROOT %y = ({shapes[2]}{{3,2,1,0}}, u8[0]{{0}}) custom-call(%x, %w), """
    entry += f'window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$conv{target}"'

    (kernel,) = read_kernels(program(entry))
    assert (kernel.kind, kernel.flops, kernel.winograd) == ("convolution", 2 * (4 * 8 * 8 * 32) * (3 * 3 * 16), True)


@given(trips=st.integers(1, 500), depth=st.integers(1, 3))
def test_nested_loops_multiply(trips: int, depth: int) -> None:
    body, rest = "copy", ""
    for level in range(depth):
        inner = "%c = f32[8]{{0}} copy(%a)" if level == 0 else _loop(f"body{level - 1}", trips)
        rest += f"%body{level} (a: f32[8]) -> f32[8] {{\n  %a = f32[8]{{0}} parameter(0)\n  {inner}\n}}\n\n"
        rest += f"%cond{level} (a: f32[8]) -> pred[] {{\n  %a = f32[8]{{0}} parameter(0)\n}}\n\n"
    entry = f"  %a = f32[8]{{0}} parameter(0)\n  {_loop(f'body{depth - 1}', trips)}"
    (kernel,) = read_kernels(program(entry, rest))
    assert (kernel.kind, kernel.times, kernel.bytes, kernel.loop) == (body, trips**depth, 64, True)


def _loop(body: str, trips: int) -> str:
    condition = body.replace("body", "cond")
    known = f'backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    return f"%w = f32[8]{{0}} while(%a), condition=%{condition}, body=%{body}, {known}"


def test_only_the_larger_branch_counts_and_nothing_else_launches() -> None:
    rest = """%one (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %c = f32[8]{0} copy(%a)
}

%two (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %c = f32[8]{0} copy(%a)
  ROOT %n = f32[8]{0} negate(%c)
}
"""
    entry = """  %a = f32[8]{0} parameter(0)
  %i = s32[] constant(0)
  %s = f32[8]{0} custom-call(%a), custom_call_target="Sharding"
  %b = f32[2,4]{1,0} bitcast(%a)
  ROOT %y = f32[8]{0} conditional(%i, %a, %a), branch_computations={%one, %two}"""
    kernels = read_kernels(program(entry, rest))
    assert [(kernel.kind, kernel.times) for kernel in kernels] == [("copy", 1), ("other", 1)]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("jit(train_step)/jvp(dense_1)/dot_general", "dense_1"),
        ("jit(train_step)/transpose(jvp(dense_1))/dot_general", "dense_1, backward"),
        ("jit(train_step)/adam/sub", "adam"),
        ("jit(train_step)/jit(_where)/select_n", ""),
        ("jit(f)/jvp(block)/attention/abc,cde->abde/dot_general", "block/attention"),
        ("state[0][1]", ""),
        ("", ""),
    ],
)
def test_layers_of_operations(name: str, layer: str) -> None:
    assert layer_of(name) == layer


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(ValueError, match="entry"):
        read_kernels(text.replace("ENTRY", ""))
    assert isinstance(read_kernels(program(text.replace("\n", " "))), tuple)
