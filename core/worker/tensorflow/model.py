"""Keras on TensorFlow: the compiled train and predict functions that ``fit`` and ``predict`` run, one for each cell."""

from __future__ import annotations

from typing import Any, Literal

import tensorflow as tf

from core.evidence import MAX_WHY
from core.frameworks import Compiled
from core.spec import AS_ASKED, KERAS_ON_CPU, KERAS_ON_SEVERAL, KERAS_WITHOUT_XLA, KERAS_XLA, Target, Workload
from core.worker.keras.model import build, without_compiler
from core.worker.keras.step import KerasStep
from core.worker.protocol import CellFailed


def build_model(workload: Workload, target: Target) -> Any:
    """Compiled ``keras.Model`` with all its variables, in the target's precision and execution mode.

    Raises CellFailed ``error`` where Keras would quietly leave XLA out.
    """
    model = build(workload, target, _jit_compile(target))
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
    if target.replicas > 1:
        return KERAS_ON_SEVERAL
    if run == "xla":
        return KERAS_XLA
    return KERAS_WITHOUT_XLA.format(layers=without_compiler(model) or "this network’s layers")


def _check_compiled(model: Any, target: Target) -> None:
    """Keras goes on without XLA where a layer may call cuDNN, which would be timed under the wrong name."""
    if target.execution == "xla" and not model.jit_compile:
        what = without_compiler(model) or "this network"
        raise CellFailed("error", f"Keras does not compile {what} with XLA here; choose execution=graph instead.")


class CellStep(KerasStep):
    """One cell's step, which TensorFlow compiled for it."""

    def train_once(self) -> Any:
        return self._function(self._iterator)

    def predict_once(self) -> Any:
        return self._function([next(self._iterator) for _ in range(self.per_call)])

    def wait(self, last: Any) -> None:  # noqa: ARG002
        tf.test.experimental.sync_devices()
