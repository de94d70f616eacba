"""Real training and real gradients, in this process: a known answer, tasks that can be learnt, own data, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.studies.noise.answer import noise_scale
from core.studies.noise.record import GradientDraw
from core.worker.protocol import CellFailed, OpenTraining, SampleGradients
from core.workload.spec import Target, Workload
from simulated.noises import Regression

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def load_tensorflow() -> None:
    """Import TensorFlow only now, so that collecting the tests does not load it."""
    global Task, Training, keras, tf, training
    import keras
    import tensorflow as tf

    from core.worker.tensorflow import training
    from core.worker.tensorflow.training import Task, Training


SMALL, PARTS = 16, 16
PROBLEM = Regression(inputs=20, distance=0.5)


def opened(workload: str | Workload = "20-16-4", optimizer: str = "adam", **more) -> Training:
    if isinstance(workload, str):
        workload = Workload(network=network_from_name(workload), optimizer=optimizer)
    request = OpenTraining(**({"workload": workload, "batch": 32, "learning_rate": 0.01} | more))
    return Training(request, Target(), "CPU:0")


def regression_task(request: OpenTraining) -> Task:
    """Return the known problem: weights at a distance from the true ones, which are zero."""
    model = keras.Sequential([keras.layers.Input((PROBLEM.inputs,)), keras.layers.Dense(1, use_bias=False)])
    away = np.zeros((PROBLEM.inputs, 1), np.float32)
    away[0] = PROBLEM.distance
    model.set_weights([away])

    def draw(samples, seed):
        x = tf.random.stateless_normal((samples, PROBLEM.inputs), seed)
        return x, PROBLEM.noise * tf.random.stateless_normal((samples, 1), seed + 1_000_003)

    def loss(y, outputs):
        return 0.5 * tf.reduce_mean(tf.square(outputs - y))

    return Task(model, loss, draw, draw(256, tf.constant([request.seed, 1])))


@pytest.fixture
def regression(monkeypatch):
    monkeypatch.setattr(training, "make_task", regression_task)
    return opened(seed=1)


def draws(one: Training, count: int, parts: int = PARTS) -> list[GradientDraw]:
    reply = one.sample(SampleGradients(small=SMALL, parts=parts, draws=count))
    return [GradientDraw(step=0, small=SMALL, big=SMALL * parts, small_norm2=s, big_norm2=b) for s, b in reply.norms2]


def test_the_known_noise_scale_of_a_regression_is_found_from_norms_of_batches_of_these_sizes(regression):
    many = draws(regression, 200)
    found = noise_scale(many)
    assert found.value == pytest.approx(PROBLEM.scale, rel=0.12)
    assert found.low < PROBLEM.scale < found.high
    assert found.high / found.low < 1.5
    small, big = (float(np.mean(values)) for values in zip(*((d.small_norm2, d.big_norm2) for d in many), strict=True))
    assert small == pytest.approx(PROBLEM.squared + PROBLEM.trace / SMALL, rel=0.05)
    assert big == pytest.approx(PROBLEM.squared + PROBLEM.trace / (SMALL * PARTS), rel=0.1)


def test_draws_differ_and_leave_the_weights_alone(regression):
    before = regression.opened.loss
    many = draws(regression, 4)
    assert len({d.big_norm2 for d in many}) == 4
    assert regression.train(0 + 1).step == 1
    assert regression._held_out_loss() != before
    unchanged = regression._held_out_loss()
    draws(regression, 2, parts=4)
    assert regression._held_out_loss() == unchanged


@pytest.mark.parametrize(("network", "optimizer"), [("20-16-4", "adam"), ("20-16-1", "momentum"), ("20-16-4", "sgd")])
def test_a_teachers_task_can_be_learnt(network, optimizer):
    one = opened(network, optimizer, batch=64, learning_rate=0.01 if optimizer == "adam" else 0.1)
    assert one.opened.samples is None
    first = one.train(20)
    last = one.train(280)
    assert (first.step, last.step) == (20, 300)
    assert last.loss < 0.6 * one.opened.loss
    assert last.loss < first.loss


def test_every_class_of_a_teacher_is_used():
    with tf.device("CPU:0"):
        draw = training._teacher(network_from_name("50-32-8"), seed=3)
        _, labels = draw(4_096, tf.constant([5, 6]))
        _, yes = training._teacher(network_from_name("50-32-1"), seed=3)(4_096, tf.constant([5, 6]))
    shares = np.bincount(labels.numpy(), minlength=8) / 4_096
    assert shares.min() > 0.05
    assert yes.shape == (4_096, 1)
    assert 0.4 < float(tf.reduce_mean(yes)) < 0.6


def test_the_same_seed_is_the_same_training_and_another_is_not():
    losses = [opened(seed=seed).train(5).loss for seed in (1, 1, 2)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def write(path, samples: int, signal: bool = True, **arrays) -> str:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 20)).astype(np.float32)
    y = np.argmax(x[:, :4], axis=1) if signal else np.zeros(samples, np.int64)
    order = np.argsort(y, kind="stable")  # as files sorted by class are
    np.savez(path, **({"x": x[order], "y": y[order]} | arrays))
    return str(path)


def test_own_data_are_learnt_some_held_out_and_of_too_many_some_taken_by_chance(tmp_path, monkeypatch):
    one = opened(batch=64, data=write(tmp_path / "mine.npz", 3_000))
    assert one.opened.samples == 2_400
    assert one._task.held_out[0].shape == (600, 20)
    assert len(np.unique(one._task.held_out[1])) == 4  # sorted files are held out from by chance
    assert one.train(300).loss < 0.5 * one.opened.loss
    monkeypatch.setattr(training, "MAX_OWN_SAMPLES", 500)
    one = opened(data=write(tmp_path / "mine.npz", 2_000))
    assert one.opened.samples == 400
    assert len(np.unique(one._task.held_out[1])) == 4


@pytest.mark.parametrize(
    ("samples", "signal", "sentence"), [(5, True, "ten samples"), (100, False, "two different labels")]
)
def test_data_that_teach_nothing_are_refused(tmp_path, samples, signal, sentence):
    with pytest.raises(CellFailed, match=sentence):
        opened(data=write(tmp_path / "mine.npz", samples, signal))


def test_data_that_teach_nothing_or_have_no_labels_are_refused(tmp_path):
    np.save(tmp_path / "bare.npy", np.zeros((100, 20), np.float32))
    with pytest.raises(CellFailed, match="holds no labels"):
        opened(data=str(tmp_path / "bare.npy"))


def test_a_training_that_diverges_says_so():
    one = opened(optimizer="sgd", learning_rate=100.0)
    with pytest.raises(CellFailed, match="smaller learning rate"):
        one.train(200)


def test_statistics_of_batch_normalisation_are_put_back(monkeypatch):
    real = training.make_task

    def normalised(request):
        task = real(request)
        inputs = keras.layers.Input((20,))
        model = keras.Model(inputs, task.model(keras.layers.BatchNormalization()(inputs)))
        return Task(model, task.loss, task.draw, task.held_out)

    monkeypatch.setattr(training, "make_task", normalised)
    one = opened()
    before = one._held_out_loss()
    one.sample(SampleGradients(small=8, parts=4, draws=2))
    assert one._held_out_loss() == before
    assert one.train(1).loss != before
