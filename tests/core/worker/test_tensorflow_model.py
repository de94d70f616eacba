"""Samples, labels, losses and XLA of networks of every kind, in this process and without a step."""

from typing import Any, ClassVar

import numpy as np
import pytest

from core.networks.families import Network, network_from_name
from core.networks.families.recurrent import Recurrent
from core.worker.protocol import CellFailed
from core.workload.spec import Target, Workload

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def load_tensorflow() -> None:
    """Import TensorFlow only now, so that collecting the tests does not load it."""
    global keras, MAX_POOL, MIN_POOL, build_model, make_arrays, make_loss, pool_size
    import keras

    from core.worker.feeds import MAX_POOL, MIN_POOL, make_arrays, pool_size
    from core.worker.keras.model import make_loss
    from core.worker.tensorflow.model import build_model


class Tagger(Recurrent):
    """Network with an answer at each position of the sequence."""

    logits: ClassVar[bool] = True

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.sequence,)

    @property
    def from_logits(self) -> bool:
        return self.logits


class Probabilities(Tagger):
    logits: ClassVar[bool] = False


def tagger(classes: int, kind: type[Tagger] = Tagger) -> Tagger:
    return kind(cell="lstm", depth=1, width=4, sequence=5, features=3, outputs=classes)


def training(network: Network) -> Workload:
    return Workload.model_construct(network=network, mode="train", optimizer="sgd")


def test_token_ids_are_whole_numbers_below_the_vocabulary_and_use_all_of_it() -> None:
    workload = training(network_from_name("transformer-8x1-h2-s6-f2-v50-3"))
    x, y = make_arrays(workload, 400)
    assert (x.shape, x.dtype) == ((400, 6), np.int64)
    assert set(np.unique(x)) == set(range(50))
    assert (y.shape, set(np.unique(y))) == ((400,), {0, 1, 2})


def test_images_are_real_numbers_and_the_same_each_time() -> None:
    workload = training(network_from_name("lenet5"))
    x, y = make_arrays(workload, 300)
    assert (x.shape, x.dtype) == ((300, 28, 28, 1), np.float32)
    assert abs(float(x.mean())) < 0.01
    assert float(x.std()) == pytest.approx(1, abs=0.01)
    assert (y.dtype, set(np.unique(y))) == (np.int64, set(range(10)))
    assert all(np.array_equal(a, b) for a, b in zip((x, y), make_arrays(workload, 300), strict=True))


def test_labels_have_the_shape_of_the_answers() -> None:
    assert make_arrays(training(tagger(4)), 7)[1].shape == (7, 5)
    _, y = make_arrays(training(tagger(1)), 70)
    assert (y.shape, y.dtype, set(np.unique(y))) == ((70, 5, 1), np.float32, {0.0, 1.0})
    (x,) = make_arrays(Workload(network=network_from_name("lstm-4x1-5x3-2"), mode="infer"), 7)
    assert x.shape == (7, 5, 3)


def test_the_pool_holds_as_many_batches_as_fit_in_its_bytes() -> None:
    tokens, numbers = (training(network_from_name(n)) for n in ("transformer-8x1-h2-s1024-f2-v50-3", "1024-8-3"))
    assert (pool_size(tokens, 2048), pool_size(numbers, 2048)) == (4, 8)  # 16 MiB and 8 MiB a batch, of 64 MiB
    assert pool_size(numbers, 65_536) == MIN_POOL
    assert pool_size(numbers, 1) == MAX_POOL


@pytest.mark.parametrize("kind", [Tagger, Probabilities])
def test_cross_entropy_is_that_of_logits_or_of_probabilities(kind: type[Tagger]) -> None:
    logits = np.array([[[2.0, 0.0, -1.0], [0.0, 0.0, 3.0]]], np.float32)
    odds = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    right = np.array([[0, 1]])
    expected = -np.log(np.take_along_axis(odds, right[..., None], -1)).mean()
    given = logits if kind is Tagger else odds
    assert float(make_loss(tagger(3, kind))(right, given)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [Tagger, Probabilities])
def test_binary_cross_entropy_is_that_of_logits_or_of_probabilities(kind: type[Tagger]) -> None:
    logits = np.array([[[2.0], [-1.0]]], np.float32)
    odds = 1 / (1 + np.exp(-logits))
    expected = -np.log([odds[0, 0, 0], 1 - odds[0, 1, 0]]).mean()
    given = logits if kind is Tagger else odds
    right = np.array([[[1.0], [0.0]]], np.float32)
    assert float(make_loss(tagger(1, kind))(right, given)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_xla_is_on_where_keras_can_and_where_it_would_quietly_leave_it_out_a_failed_cell(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Check Keras's behaviour with an LSTM on a GPU, where it may call cuDNN."""
    real = Recurrent.build

    def build(network: Recurrent, framework: Any) -> Any:
        model = real(network, framework)
        model.layers[1].supports_jit = False
        return model

    monkeypatch.setattr(Recurrent, "build", build)
    workload = Workload.model_validate({"network": network_from_name("lstm-4x1-5x3-2"), "mode": mode})
    with pytest.raises(CellFailed, match=r"LSTM .*execution=graph"):
        build_model(workload, Target(execution="xla"))
    assert not build_model(workload, Target()).jit_compile
    monkeypatch.undo()
    assert build_model(workload, Target(execution="xla")).jit_compile
    keras.backend.clear_session()


def test_every_family_computes_in_half_precision_and_answers_in_single() -> None:
    target = Target(precision="mixed_bfloat16")
    for name in ("lenet5", "transformer-8x1-h2-s6-f2-v50-3", "gru-4x1-5x3-2", "12-8-2"):
        model = build_model(Workload(network=network_from_name(name), mode="infer"), target)
        first, *_, last = [layer for layer in model.layers if layer.weights]
        assert (first.compute_dtype, last.compute_dtype) == ("bfloat16", "float32")
    keras.mixed_precision.set_dtype_policy("float32")
