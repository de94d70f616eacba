"""Keras's own compiled step of one cell, on any backend."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np

from core.worker.feeds import Feed
from core.worker.step import Step, check_loss, check_outputs
from core.workload.spec import Workload


class KerasStep(Step):
    """The function that ``fit`` or ``predict`` runs, made for this cell alone; a backend implements its call.

    Keras's functions may relax their shapes when they see a second batch size, so a function is never shared between
    cells. The model's variables are, since step times do not depend on their values. ``per_call`` is Keras's
    ``steps_per_execution``.
    """

    def __init__(self, model: Any, workload: Workload, feed: Feed, per_call: int = 1) -> None:
        super().__init__(feed, per_call)
        self.model = model
        self.output_difference = getattr(model, "output_difference", None)
        self._training = workload.training
        self._function = self.make_function()
        self.call = self.train_once if self._training else self.predict_once

    @abstractmethod
    def train_once(self) -> Any:
        """Run one training call; return Keras's logs, a mapping with the ``loss``."""

    @abstractmethod
    def predict_once(self) -> Any:
        """Run one inference call; return the outputs."""

    def own_loop(self) -> AbstractContextManager[None]:
        """Return the context for a call of ``fit`` or ``predict``, which prepares the model and restores it."""
        return contextlib.nullcontext()

    def wait_for_model(self) -> None:
        """Wait until the device has finished what ``fit`` or ``predict`` started."""
        self.wait(None)

    def make_function(self) -> Any:
        """Return Keras's function, newly compiled."""
        if self._training:
            self.model.make_train_function(force=True)
            function, self.model.train_function = self.model.train_function, None
        else:
            self.model.make_predict_function(force=True)
            function, self.model.predict_function = self.model.predict_function, None
        return function

    @property
    def training(self) -> bool:
        return self._training

    @property
    def function(self) -> Any:
        """Keras's compiled function, used by this cell alone."""
        return self._function

    def check_finite(self) -> None:
        if self._training:
            check_loss(float(np.asarray(self.last["loss"])))
        else:
            ops = keras.ops
            check_outputs(bool(ops.all(ops.isfinite(ops.cast(self.last, "float32")))))
