"""Keras on TensorFlow: the compiled train and predict functions of ``fit`` and ``predict``, one per cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import tensorflow as tf

from core.base.evidence import MAX_WHY
from core.base.frameworks import Compiled
from core.worker.keras.model import build, without_compiler
from core.worker.keras.step import KerasStep
from core.worker.protocol import CellFailed
from core.workload.spec import (
    AS_ASKED,
    CALLED_EAGERLY,
    KERAS_ON_CPU,
    KERAS_ON_SEVERAL,
    KERAS_WITHOUT_XLA,
    KERAS_XLA,
    Target,
    Workload,
)


def build_model(workload: Workload, target: Target) -> Any:
    """Return a compiled ``keras.Model`` with all its variables, in the target's precision and execution mode.

    Raises CellFailed ``error`` if Keras would silently skip XLA.
    """
    if target.call == "model":
        target = target.model_copy(update={"execution": "eager"})
    model = build(workload, target, _jit_compile(target))
    _check_compiled(model, target)
    return model


def _jit_compile(target: Target) -> bool | Literal["auto"]:
    """Return Keras's ``jit_compile``; its own choice is taken on a GPU only.

    A CPU target stands for the machine without its GPU, where Keras runs a graph, but Keras would choose XLA for any
    device as soon as the system lists a GPU.
    """
    if target.execution == "keras":
        return "auto" if target.is_gpu else False
    return target.execution == "xla"


def compiled_as(model: Any, target: Target) -> tuple[Compiled, str]:
    """Return how the model's steps run, and why, as in :class:`core.base.evidence.CellSetup`."""
    run: Compiled = "eager" if model.run_eagerly else "xla" if model.jit_compile else "graph"
    return run, _why(model, target, run)[:MAX_WHY]


def _why(model: Any, target: Target, run: Compiled) -> str:
    if target.execution != "keras":
        return AS_ASKED
    if target.call == "model":
        return CALLED_EAGERLY
    if not target.is_gpu:
        return KERAS_ON_CPU
    if target.replicas > 1:
        return KERAS_ON_SEVERAL
    if run == "xla":
        return KERAS_XLA
    return KERAS_WITHOUT_XLA.format(layers=without_compiler(model) or "this network’s layers")


def _check_compiled(model: Any, target: Target) -> None:
    """Raise CellFailed if Keras skips XLA, as for layers that may call cuDNN: the time would bear the wrong name."""
    if target.execution == "xla" and not model.jit_compile:
        what = without_compiler(model) or "this network"
        raise CellFailed("error", f"Keras does not compile {what} with XLA here; choose execution=graph instead.")


class CellStep(KerasStep):
    """One cell's step, compiled for it by TensorFlow."""

    def train_once(self) -> Any:
        return self._function(self._iterator)

    def predict_once(self) -> Any:
        return self._function([next(self._iterator) for _ in range(self.model.steps_per_execution)])

    def wait(self, last: Any) -> None:  # noqa: ARG002
        tf.test.experimental.sync_devices()

    def traces(self) -> int | None:
        return max(function.experimental_get_tracing_count() for function in _compiled(self._function))


def _compiled(function: Any) -> Iterator[Any]:
    """Yield the compiled functions among a function of Keras's and what its closures hold."""
    if hasattr(function, "experimental_get_tracing_count"):
        yield function
        function = function.python_function
    for cell in getattr(function, "__closure__", None) or ():
        if callable(cell.cell_contents) and not isinstance(cell.cell_contents, type):
            yield from _compiled(cell.cell_contents)
