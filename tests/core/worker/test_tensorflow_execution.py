"""Keras's own choice with a listed GPU, asked in this process with a made-up list of devices; and TF32."""

import sys
from typing import Any
from unittest import mock

import pytest

from core.networks.families import network_from_name
from core.worker.protocol import CellFailed
from core.workload.execution import expected
from core.workload.spec import KERAS_ON_CPU, KERAS_XLA, Target, Workload

pytestmark = pytest.mark.tensorflow

CPU, GPU = Target(), Target(device="gpu:0")


@pytest.fixture(scope="module", autouse=True)
def load_tensorflow() -> None:
    """Import TensorFlow only now, so that collecting the tests does not load it."""
    global keras, tf, devices, build_model, compiled_as
    import keras
    import tensorflow as tf

    from core.worker.tensorflow import devices
    from core.worker.tensorflow.model import build_model, compiled_as


def no_kernel(*_: Any, **__: Any) -> None:
    raise NotImplementedError  # as if a layer could not call cuDNN after all


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TensorFlow list a CPU and a GPU, and Keras believe in its cuDNN."""
    devices = [tf.config.PhysicalDevice(f"/physical_device:{kind}:0", kind) for kind in ("CPU", "GPU")]

    def listed(kind: str | None = None) -> list[Any]:
        return [device for device in devices if kind in (None, device.device_type)]

    monkeypatch.setattr(tf.config, "list_physical_devices", listed)
    rnn = sys.modules["keras.src.backend.tensorflow.rnn"]  # a function of the same name hides it
    for name, value in (("_is_gpu_available", lambda: True), ("_cudnn_lstm", no_kernel), ("_cudnn_gru", no_kernel)):
        monkeypatch.setattr(rnn, name, value)


def workload(name: str, mode: str = "train") -> Workload:
    return Workload.model_validate({"network": network_from_name(name), "mode": mode})


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize(
    ("name", "execution"),
    [
        ("12-8-2", "xla"), ("lenet5", "xla"), ("cnn-8x8x3-8x1-k3-bn-max-2", "xla"), ("mobilenet", "xla"),
        ("transformer-8x1-h2-s6-f2-v50-3", "xla"), ("lstm-4x1-5x3-2", "graph"), ("gru-4x1-5x3-2", "graph"),
    ],
)  # fmt: skip
def test_where_a_gpu_is_listed_keras_decides_by_the_layers(name: str, mode: str, execution: str) -> None:
    asked = workload(name, mode)
    run, why = compiled_as(build_model(asked, GPU), GPU)
    assert run == execution == expected(asked.network, GPU).execution
    assert why == (KERAS_XLA if run == "xla" else f"as Keras chooses for {name.split('-')[0].upper()} layers, which do "
                   "not support XLA")  # fmt: skip


@pytest.mark.usefixtures("with_gpu")
def test_a_cpu_target_is_the_machine_without_its_gpu() -> None:
    assert keras.Sequential([keras.layers.Dense(2)])._resolve_auto_jit_compile()  # the result otherwise
    assert compiled_as(build_model(workload("12-8-2"), CPU), CPU) == ("graph", KERAS_ON_CPU)


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize("execution", ["graph", "xla", "eager"])
def test_explicit_choices_stay(execution: str) -> None:
    asked = Target(device="gpu:0", execution=execution)
    assert compiled_as(build_model(workload("12-8-2"), asked), asked) == (execution, "as asked")
    if execution == "xla":
        with pytest.raises(CellFailed, match="LSTM layers"):
            build_model(workload("lstm-4x1-5x3-2"), asked)


@pytest.mark.parametrize("precision", ["float32", "float32_strict", "mixed_float16"])
@pytest.mark.parametrize(("capability", "has"), [((8, 0), True), ((12, 0), True), ((7, 5), False), (None, None)])
@pytest.mark.usefixtures("with_gpu")
def test_tf32_is_on_where_the_card_has_it_unless_it_is_switched_off(
    precision: str, capability: tuple[int, int] | None, has: bool | None
) -> None:
    details = {"device_name": "A card", **({} if capability is None else {"compute_capability": capability})}
    target = Target(device="gpu:0", precision=precision)
    (card,) = tf.config.list_physical_devices("GPU")
    own = {
        "set_memory_growth": mock.DEFAULT,
        "get_device_details": lambda _: details,
    }
    try:
        with (
            mock.patch.multiple(tf.config.experimental, **own),
            mock.patch.multiple(tf.config, set_visible_devices=mock.DEFAULT, get_visible_devices=lambda _: [card]),
        ):
            assert devices._choose_gpus(target, None) == "A card"
            used = devices.uses_tf32()
        strict = precision == "float32_strict"
        assert used is (None if has is None else has and not strict)
        assert tf.config.experimental.tensor_float_32_execution_enabled() is not strict
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)


def test_xla_computes_products_in_full_where_tf32_is_switched_off() -> None:
    """Check on any device: the switch is written into the program that XLA compiles."""

    def program() -> str:
        @tf.function(jit_compile=True)
        def product(a: Any, b: Any) -> Any:
            return tf.matmul(a, b)

        return str(product.experimental_get_compiler_ir(tf.zeros((4, 8)), tf.zeros((8, 4)))(stage="hlo"))

    try:
        assert "operand_precision={highest,highest}" not in program()
        tf.config.experimental.enable_tensor_float_32_execution(False)
        assert "operand_precision={highest,highest}" in program()
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)


def test_strict_float32_computes_in_float32() -> None:
    strict = Target(device="gpu:0", precision="float32_strict", execution="graph")
    model = build_model(workload("12-8-2"), strict)
    assert {str(layer.compute_dtype) for layer in model.layers} == {"float32"}
