"""The expected execution of a target, and its words."""

import pytest

from core.base.evidence import Gpu
from core.networks.families.code import Code
from core.workload.execution import chosen_line, expected, expected_words, has_tf32, resolved, same
from core.workload.spec import Target, Workload

DENSE, CNN, RECURRENT = (Workload(network=name) for name in ("784-128-10", "resnet8", "lstm-4x1-5x3-2"))
CODE = Workload(
    network=Code(
        entry="models:make", folder="/home/me", sample_shape=(4,), outputs=2,
        counts=Workload(network="4-8-2").network.layers,
    )
)  # fmt: skip
CPU, GPU = Target(), Target(device="gpu:0")


@pytest.mark.parametrize(
    ("workload", "target", "execution", "sure"),
    [
        (DENSE, CPU, "graph", True),
        (RECURRENT, Target(threads=1), "graph", True),
        (DENSE, GPU, "xla", True),
        (CNN, GPU, "xla", True),
        (RECURRENT, GPU, "graph", True),
        (Workload(network="gru-4x1-5x3-2"), GPU, "graph", True),
        (Workload(network="transformer-8x1-h2-s6-f2-v50-3"), GPU, "xla", True),
        (CODE, GPU, "xla", False),
        (CODE, CPU, "graph", True),
    ],
)
def test_keras_takes_xla_on_a_gpu_where_every_layer_supports_it(
    workload: Workload, target: Target, execution: str, sure: bool
) -> None:
    found = expected(workload.network, target)
    assert (found.execution, found.sure) == (execution, sure)
    assert resolved(workload, target) == target.model_copy(update={"execution": execution})


@pytest.mark.parametrize("execution", ["graph", "xla", "eager"])
def test_what_was_asked_for_stays(execution: str) -> None:
    for device in ("cpu", "gpu:1"):
        asked = Target(device=device, execution=execution)
        assert expected(RECURRENT.network, asked).execution == execution
        assert resolved(RECURRENT, asked) == asked


@pytest.mark.parametrize(
    ("workload", "target", "tf32", "words"),
    [
        (DENSE, CPU, None, "graph, as Keras chooses without a GPU"),
        (DENSE, GPU, True, "XLA, as Keras chooses by default; float32 (TF32)"),
        (DENSE, GPU, False, "XLA, as Keras chooses by default"),
        (DENSE, "gpu:0,precision=float32_strict", True, "XLA, as Keras chooses by default; float32 without TF32"),
        (DENSE, "gpu:0,precision=mixed_float16", True, "XLA, as Keras chooses by default; mixed_float16"),
        (DENSE, "gpu:0,execution=graph,steps_per_execution=4", None, "graph, as asked; 4 steps per execution"),
        (RECURRENT, GPU, None, "graph, as Keras chooses for recurrent layers, which do not support XLA"),
        (CODE, GPU, None, "XLA, as Keras chooses by default unless a layer does not support it"),
    ],
)
def test_words(workload: Workload, target: Target | str, tf32: bool | None, words: str) -> None:
    asked = Target.parse(target) if isinstance(target, str) else target
    assert expected_words(workload, asked, tf32) == words


def test_where_no_setup_is_recorded_the_line_says_what_keras_is_expected_to_choose() -> None:
    assert chosen_line(DENSE, CPU, CPU, Target(threads=2, execution="graph"), GPU) == (
        "CPU: graph, as Keras chooses without a GPU. GPU 0: XLA, as Keras chooses by default.",
    )
    assert chosen_line(DENSE, Target(execution="xla")) == ()


@pytest.mark.parametrize(
    ("workload", "first", "second", "alike"),
    [
        (DENSE, "cpu", "cpu,execution=graph", True),
        (DENSE, "cpu,execution=graph", "cpu", True),
        (DENSE, "cpu", "cpu,execution=xla", False),
        (DENSE, "cpu", "cpu,threads=1,execution=graph", False),
        (DENSE, "gpu:0", "gpu:0,execution=xla", True),
        (DENSE, "gpu:0", "gpu:0,execution=graph", False),
        (RECURRENT, "gpu:0", "gpu:0,execution=graph", True),
        (CODE, "gpu:0", "gpu:0,execution=xla", False),  # unknown
        (CODE, "gpu:0", "gpu:0", True),
        (DENSE, "gpu:0", "gpu:0,precision=float32_strict", False),
    ],
)
def test_targets_that_come_to_the_same(workload: Workload, first: str, second: str, alike: bool) -> None:
    assert same(workload, Target.parse(first), Target.parse(second)) is alike


@pytest.mark.parametrize(
    ("device", "capability", "tf32"),
    [
        ("gpu:0", "8.0", True),
        ("gpu:0", "12.0", True),
        ("gpu:0", "7.5", False),
        ("gpu:0", None, None),
        ("gpu:0", "unknown", None),
        ("gpu:1", "8.0", None),
        ("cpu", "8.0", None),
    ],
)
def test_a_card_has_tf32_by_its_compute_capability(device: str, capability: str | None, tf32: bool | None) -> None:
    assert has_tf32(device, (Gpu(name="a card", compute_capability=capability),)) is tf32
