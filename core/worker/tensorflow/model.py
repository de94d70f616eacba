"""Keras on TensorFlow: the compiled train and predict functions that ``fit`` and ``predict`` run, one for each cell."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from core.evidence import MAX_WHY
from core.families import Network
from core.frameworks import Compiled
from core.spec import AS_ASKED, KERAS_ON_CPU, KERAS_WITHOUT_XLA, KERAS_XLA, Target, Workload
from core.worker.protocol import CellFailed
from core.worker.tensorflow.pipeline import Feed

MIN_PIPELINE_CALLS = 2
LEARNING_RATE = 1e-4
"""Does not enter a step's cost; small, so that a network stays in one state however long it is measured."""


def build_model(workload: Workload, target: Target) -> Any:
    """Compiled ``keras.Model`` with all its variables, in the target's precision and execution mode.

    Raises CellFailed ``error`` where Keras would quietly leave XLA out.
    """
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_dtype_policy(target.precision if target.is_mixed else "float32")
    model = workload.network.build(keras)
    learning: dict[str, Any] = {}
    if workload.training:
        learning = {"optimizer": make_optimizer(workload.optimizer), "loss": make_loss(workload.network)}
    model.compile(
        jit_compile=_jit_compile(target),
        run_eagerly=target.execution == "eager",
        steps_per_execution=target.steps_per_execution,
        **learning,
    )
    if workload.training:
        model.optimizer.build(model.trainable_variables)  # as fit does before its first step
    _check_compiled(model, target)
    return model


def _jit_compile(target: Target) -> bool | Literal["auto"]:
    """Keras's own choice is asked for on a GPU only: a CPU target is the machine without its GPU, where it is a graph,
    though Keras would take XLA for any device as soon as the system lists a GPU.
    """
    if target.execution == "keras":
        return "auto" if target.is_gpu else False
    return target.execution == "xla"


def compiled_as(model: Any, target: Target) -> tuple[Compiled, str]:
    """How the model's steps run, and why, as :class:`core.evidence.CellSetup` has it."""
    run: Compiled = "eager" if model.run_eagerly else "xla" if model.jit_compile else "graph"
    return run, _why(model, target, run)[:MAX_WHY]


def _why(model: Any, target: Target, run: Compiled) -> str:
    if target.execution != "keras":
        return AS_ASKED
    if not target.is_gpu:
        return KERAS_ON_CPU
    if run == "xla":
        return KERAS_XLA
    return KERAS_WITHOUT_XLA.format(layers=without_xla(model) or "this network’s layers")


def without_xla(model: Any) -> str:
    """The kinds of layer that keep Keras from XLA, such as “GRU and LSTM layers”; empty where none does."""
    kinds = sorted({type(layer).__name__ for layer in model._flatten_layers() if not layer.supports_jit})
    return f"{' and '.join(kinds)} layers" if kinds else ""


def _check_compiled(model: Any, target: Target) -> None:
    """Keras goes on without XLA where a layer may call cuDNN, which would be timed under the wrong name."""
    if target.execution == "xla" and not model.jit_compile:
        what = without_xla(model) or "this network"
        raise CellFailed("error", f"Keras does not compile {what} with XLA here; choose execution=graph instead.")


def make_loss(network: Network) -> Any:
    """Cross-entropy between a network's outputs, logits or probabilities, and the numbers of the right classes."""
    if network.classes == 1:
        return keras.losses.BinaryCrossentropy(from_logits=network.from_logits)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=network.from_logits)


def make_optimizer(name: str, rate: float = LEARNING_RATE) -> Any:
    if name == "adam":
        return keras.optimizers.Adam(rate)
    return keras.optimizers.SGD(rate, momentum=0.9 if name == "momentum" else 0.0)


def renew(model: Any, workload: Workload, target: Target) -> None:
    """Give a model that diverged the values of a new one, so that other cells that share it are sound again."""
    fresh = build_model(workload, target)
    model.set_weights(fresh.get_weights())
    if workload.training:
        for old, new in zip(model.optimizer.variables, fresh.optimizer.variables, strict=True):
            old.assign(new)
        model.reset_metrics()


class CellStep:
    """One cell's step: Keras's own compiled function, made for this cell alone, on this cell's feed.

    A ``tf.function`` of Keras relaxes its shapes when it sees a second batch size, so a function is never shared
    between cells; the model's variables are, since step times do not depend on their values. ``per_call`` steps run
    in one call of it (Keras's ``steps_per_execution``).
    """

    def __init__(self, model: Any, workload: Workload, feed: Feed, per_call: int = 1) -> None:
        self.model = model
        self.per_call = per_call
        self._training = workload.training
        self._feed = feed
        self._iterator: Any = None
        self._function = self.make_function()
        self.call: Callable[[], Any] = self._train_once if self._training else self._predict_once
        self.last: Any = None

    def make_function(self) -> Any:
        """Keras's function, compiled anew."""
        if self._training:
            self.model.make_train_function(force=True)
            function, self.model.train_function = self.model.train_function, None
        else:
            self.model.make_predict_function(force=True)
            function, self.model.predict_function = self.model.predict_function, None
        return function

    @property
    def function(self) -> Any:
        """Keras's compiled function, of this cell alone."""
        return self._function

    @property
    def iterator(self) -> Iterator[Any]:
        """What the step draws from while it is :meth:`fed`."""
        drawn: Iterator[Any] = self._iterator
        return drawn

    def _train_once(self) -> Any:
        return self._function(self._iterator)

    def _predict_once(self) -> Any:
        return self._function([next(self._iterator) for _ in range(self.per_call)])

    @contextlib.contextmanager
    def fed(self, warm_pipeline: bool = True) -> Iterator[float]:
        """While this lasts the step has data to draw; a new pipeline first runs until it is in steady state.

        That takes the feed's ``warmup_ms`` and two calls at least. Gives the milliseconds that it ran.
        """
        self._iterator = self._feed.open()
        if self._feed.warmup_ms:
            next(self._iterator)  # sets the pipeline's own functions up, which is no part of a step
        least_ms = self._feed.warmup_ms if warm_pipeline else 0.0
        try:
            spent_ms, calls = 0.0, 0
            while least_ms and (calls < MIN_PIPELINE_CALLS or spent_ms < least_ms):
                spent_ms += self.run(self.per_call)
                calls += 1
            yield spent_ms
        finally:
            self._iterator = None  # ends a pipeline's threads

    def run(self, steps: int) -> float:
        """Run ``steps`` steps (whole calls) and wait for the device once; milliseconds by the monotonic clock."""
        calls, rest = divmod(steps, self.per_call)
        if rest or not calls:
            raise CellFailed("error", f"A block of {steps} steps is not whole calls of {self.per_call} steps.")
        call = self.call
        collecting = gc.isenabled()
        gc.disable()
        try:
            start = time.perf_counter_ns()
            for _ in itertools.repeat(None, calls):
                last = call()
            tf.test.experimental.sync_devices()
            end = time.perf_counter_ns()
        finally:
            if collecting:
                gc.enable()
        self.last = last
        return (end - start) * 1e-6

    def check_finite(self) -> None:
        """Raise CellFailed ``nan_loss`` if the last step's loss (or output, when inferring) is not finite."""
        if self._training:
            loss = float(np.asarray(self.last["loss"]))
            if not np.isfinite(loss):
                raise CellFailed(
                    "nan_loss", f"The training loss became {loss}; the steps timed after that mean nothing."
                )
        elif not bool(tf.reduce_all(tf.math.is_finite(tf.cast(self.last, tf.float32)))):
            raise CellFailed("nan_loss", "The network's output holds values that are not finite.")
