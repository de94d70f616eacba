"""Real training of a workload's network on a learnable task, with the norms of its gradients on the way.

Trains in float32 with compiled functions on the worker's device. By default a teacher sets the task: random inputs
(normal, or token ids) labelled by a network of the same architecture with other random weights, new for every batch, so
that nothing is ever seen twice and the held-out loss is that of the task itself. Or the task is the user's labelled
files: some samples are held out, and batches are drawn from the others with replacement, so that they are independent,
as the estimator of the noise scale assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.networks.families import Network
from core.userdata.arrays import DataError
from core.userdata.source import check_labelled
from core.worker.keras.model import make_loss, make_optimizer
from core.worker.protocol import CellFailed, GradientsSampled, OpenTraining, SampleGradients, Trained, TrainingOpened
from core.worker.tensorflow.data import own_dataset, sample_count
from core.workload.spec import Target, Workload

HELD_OUT = 1_024  # samples; their loss is known to some 3 %, the same at every step
HELD_OUT_SHARE = 0.2  # at most, of user data
EVALUATED = 256  # samples per call without gradients
STANDARDISED = 2_048  # samples whose logits give the mean and spread of a teacher's classes
MAX_OWN_BYTES, MAX_OWN_SAMPLES = 256 * 2**20, 100_000
TRAINING, GRADIENTS, HELD_OUT_SAMPLES, TEACHER = range(4)  # purposes of random draws: each has its own random numbers

Draw = Callable[[int, Any], tuple[Any, Any]]
"""(samples, seed of two int32) to (x, y) of one batch, drawn on the device within a compiled function."""


@dataclass(frozen=True)
class Task:
    """The learning task: ``loss(y, outputs)`` of ``model`` on batches of ``draw``.

    ``held_out`` is (x, y) for evaluation. ``samples`` is the number trained on, None if every batch is new.
    """

    model: Any
    loss: Any
    draw: Draw
    held_out: tuple[Any, Any]
    samples: int | None = None

    def gradients(self, x: Any, y: Any) -> list[Any]:
        """Return dense gradients of a batch's mean loss, one per trainable variable."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(y, self.model(x, training=True))
        return [tf.reshape(g, v.shape) for g, v in zip(tape.gradient(loss, variables), variables, strict=True)]


class Training:
    """One network in training. Raises CellFailed if the task cannot be set up, or diverges."""

    opened: TrainingOpened

    def __init__(self, request: OpenTraining, target: Target, device: str) -> None:  # noqa: ARG002
        keras.mixed_precision.set_dtype_policy("float32")
        self._device, self._seed, self._batch = device, request.seed, request.batch
        with tf.device(device):
            self._task = make_task(request)
            self._optimizer = make_optimizer(request.workload.optimizer, request.learning_rate)
            self._optimizer.build(self._task.model.trainable_variables)
        self._step = self._drawn = 0
        self._train, self._evaluate = tf.function(self._train_steps), tf.function(self._loss_of)
        self._norms = tf.function(self._gradient_norms)
        self.opened = TrainingOpened(samples=self._task.samples, loss=self._held_out_loss())

    def train(self, steps: int) -> Trained:
        """Train ``steps`` more steps at the opened batch size, then evaluate the held-out loss."""
        with tf.device(self._device):
            self._train(tf.constant(self._step), tf.constant(steps))
        self._step += steps
        return Trained(step=self._step, loss=self._held_out_loss())

    def sample(self, request: SampleGradients) -> GradientsSampled:
        """Return gradient norms at the current weights, which stay; batch normalisation's statistics are restored."""
        states = self._task.model.non_trainable_variables
        kept = [state.numpy() for state in states]
        norms2 = []
        with tf.device(self._device):
            for _ in range(request.draws):
                small, big = self._norms(tf.constant(self._drawn), tf.constant(request.parts), request.small)
                norms2.append((float(small), float(big)))
                self._drawn += request.parts
            for state, value in zip(states, kept, strict=True):
                state.assign(value)
        if not np.isfinite(norms2).all():
            raise CellFailed("nan_loss", "Gradients became infinite or NaN; choose a smaller learning rate.")
        return GradientsSampled(norms2=tuple(norms2))

    def _held_out_loss(self) -> float:
        x, y = self._task.held_out
        count, total = int(x.shape[0]), 0.0
        with tf.device(self._device):
            for begin in range(0, count, EVALUATED):
                part = slice(begin, min(count, begin + EVALUATED))
                total += float(self._evaluate(x[part], y[part])) * (part.stop - begin)
        if not math.isfinite(total):
            raise CellFailed(
                "nan_loss", "The training diverged: its loss is not finite; choose a smaller learning rate."
            )
        return total / count

    def _loss_of(self, x: Any, y: Any) -> Any:
        return self._task.loss(y, self._task.model(x, training=False))

    def _train_steps(self, first: Any, steps: Any) -> None:
        for step in tf.range(first, first + steps):
            x, y = self._task.draw(self._batch, _seed(self._seed, TRAINING, step))
            self._optimizer.apply(self._task.gradients(x, y), self._task.model.trainable_variables)

    def _gradient_norms(self, first: Any, parts: Any, small: int) -> tuple[Any, Any]:
        """Return the mean of |G|² over ``parts`` batches, and |G|² of their gradients' mean, with a running sum."""
        total = [tf.zeros(variable.shape, tf.float32) for variable in self._task.model.trainable_variables]
        norms = tf.constant(0.0)
        for part in tf.range(first, first + parts):
            gradients = self._task.gradients(*self._task.draw(small, _seed(self._seed, GRADIENTS, part)))
            norms += _norm2(gradients)
            total = [so_far + gradient for so_far, gradient in zip(total, gradients, strict=True)]
        count = tf.cast(parts, tf.float32)
        return norms / count, _norm2(total) / count**2


def make_task(request: OpenTraining) -> Task:
    """Return the request's network and task, on the device in scope. Raises CellFailed."""
    network = request.workload.network
    keras.utils.set_random_seed(request.seed)
    model, loss = network.build(keras), make_loss(network)
    if request.data is None:
        draw = _teacher(network, request.seed)
        return Task(model, loss, draw, _held_out(draw, request.seed))
    draw, held_out, samples = _own(request.data, request.workload, request.seed)
    return Task(model, loss, draw, held_out, samples)


def _norm2(gradients: list[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient in gradients])


def _seed(seed: int, purpose: int, number: Any) -> Any:
    """Return two int32 that differ for every seed, purpose and batch number."""
    return tf.stack([tf.constant(4 * seed + purpose, tf.int32), tf.cast(number, tf.int32)])


def _inputs(network: Network) -> Draw:
    def draw(samples: int, seed: Any) -> tuple[Any, Any]:
        shape = (samples, *network.input_shape)
        if network.vocabulary is not None:
            return tf.random.stateless_uniform(shape, seed, 0, network.vocabulary, tf.int64), None
        return tf.random.stateless_normal(shape, seed), None

    return draw


def _teacher(network: Network, seed: int) -> Draw:
    """Return a draw of inputs with a teacher's labels.

    Its outputs are standardised per class over a sample, so that every class is used; the label is the largest, or with
    one output whether it is above its mean.
    """
    keras.utils.set_random_seed(seed + 1)
    model = network.build(keras)
    model.trainable = False
    inputs = _inputs(network)

    def scores(x: Any) -> Any:
        outputs = tf.cast(model(x, training=False), tf.float32)
        if network.from_logits:
            return outputs
        return tf.math.log(outputs / (1 - outputs) if network.classes == 1 else outputs)

    compiled = tf.function(scores)
    parts = [
        compiled(inputs(EVALUATED, _seed(seed, TEACHER, number))[0]).numpy()
        for number in range(STANDARDISED // EVALUATED)
    ]
    outputs = np.concatenate(parts).reshape(-1, parts[0].shape[-1])
    mean, spread = outputs.mean(axis=0), np.maximum(outputs.std(axis=0), 1e-12)

    def draw(samples: int, number: Any) -> tuple[Any, Any]:
        x, _ = inputs(samples, number)
        standard = (scores(x) - mean) / spread
        if network.classes == 1:
            return x, tf.cast(standard > 0, tf.float32)
        return x, tf.argmax(standard, axis=-1)

    return draw


def _held_out(draw: Draw, seed: int) -> tuple[Any, Any]:
    compiled = tf.function(draw)
    parts = [compiled(EVALUATED, _seed(seed, HELD_OUT_SAMPLES, number)) for number in range(HELD_OUT // EVALUATED)]
    return tf.concat([x for x, _ in parts], 0), tf.concat([y for _, y in parts], 0)


def _own(path: str, workload: Workload, seed: int) -> tuple[Draw, tuple[Any, Any], int]:
    """Return the draw from labelled user data, its held-out part, and the number of samples trained on."""
    try:
        check_labelled(path, workload)
    except DataError as error:
        raise CellFailed("error", str(error)) from None
    x, y = _loaded(path, workload, seed)
    count = len(x)
    if count < 10 or (workload.network.label_shape == () and len(np.unique(y)) < 2):
        raise CellFailed("error", "Learning needs ten samples at least, with two different labels among them.")
    held = min(HELD_OUT, int(count * HELD_OUT_SHARE))
    train_x, train_y = tf.constant(x[held:]), tf.constant(y[held:])

    def draw(samples: int, number: Any) -> tuple[Any, Any]:
        chosen = tf.random.stateless_uniform((samples,), number, 0, count - held, tf.int32)
        return tf.gather(train_x, chosen), tf.gather(train_y, chosen)

    return draw, (tf.constant(x[:held]), tf.constant(y[:held])), count - held


def _loaded(path: str, workload: Workload, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels in random order; a random subset if they exceed the memory allowed here."""
    network = workload.network
    most = min(MAX_OWN_SAMPLES, MAX_OWN_BYTES // (4 * math.prod(network.input_shape)))
    count = sample_count(path)
    dataset = own_dataset(path, workload, tf.data.AUTOTUNE)
    with tf.device("/CPU:0"):
        if count > most:
            kept = tf.data.Dataset.from_tensor_slices(np.random.default_rng(seed).permutation(count) < most)
            dataset = tf.data.Dataset.zip((dataset, kept)).filter(lambda _, keep: keep).map(lambda sample, _: sample)
        batches = [(x.numpy(), y.numpy()) for x, y in dataset.batch(EVALUATED)]
    order = np.random.default_rng(seed + 1).permutation(sum(len(x) for x, _ in batches))
    x, y = (np.concatenate(part)[order] for part in zip(*batches, strict=True))
    return x, y
