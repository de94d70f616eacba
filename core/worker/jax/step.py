"""Keras's own compiled step on JAX, which takes the network's state and returns the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import jax
import keras

from core.base.frameworks import FRAMEWORKS, Compiled
from core.worker.feeds import Feed, make_arrays
from core.worker.keras.model import build, renew, without_compiler
from core.worker.keras.step import KerasStep
from core.worker.protocol import CellFailed
from core.workload.spec import AS_ASKED, KERAS_WITHOUT_XLA, ONLY_WAY, Target, Workload

SHAPED = 2  # samples; Keras reads only their shapes


class Network:
    """A compiled ``keras.Model`` and its ``state``, which every cell of the workload takes and returns.

    As in ``fit``, the model's own variables are empty meanwhile: the step's state is donated, and a copy beside it
    would be memory that ``fit`` does not take.
    """

    def __init__(self, workload: Workload, target: Target) -> None:
        self._workload, self._target = workload, target
        self.model = self._build()
        self.state = self._taken()

    def give_back(self) -> None:
        """Move the state back into the model's variables, where ``fit`` and ``predict`` take it from."""
        names = ("trainable", "non_trainable", "optimizer", "metrics")[: len(self.state)]
        self.model._jax_state = {f"{name}_variables": part for name, part in zip(names, self.state, strict=True)}
        self.model._jax_state_synced = False
        self.model.jax_state_sync()
        self.model._jax_state = None

    def take(self) -> None:
        """Take the state out of the model's variables."""
        self.state = self._taken()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the state in the model's variables meanwhile, as Keras needs outside of its steps."""
        if self.lost:
            self.renew()
        self.give_back()
        try:
            yield
        finally:
            self.take()

    def renew(self) -> None:
        """Reinitialise a state that is not finite or was lost in a failed step."""
        renew(self.model, self._build(), self._workload.training)
        self.take()

    @property
    def lost(self) -> bool:
        return any(leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(self.state))

    def _build(self) -> Any:
        model = build(self._workload, self._target, _jit_compile(self._target))
        if self._target.execution == "xla" and not model.jit_compile:
            what = without_compiler(model) or "this network"
            raise CellFailed("error", f"Keras does not compile {what} with XLA on JAX; choose execution=eager instead.")
        if self._workload.training:
            model._symbolic_build(data_batch=make_arrays(self._workload, SHAPED))  # builds loss and metrics, as in fit
        return model

    def _taken(self) -> Any:
        training = self._workload.training
        return self.model._get_jax_state(
            trainable_variables=True,
            non_trainable_variables=True,
            optimizer_variables=training,
            metrics_variables=training,
            purge_model_variables=True,
        )


class JaxStep(KerasStep):
    """One cell's step: ``fit``'s function, or ``predict``'s, on the shared state of its network."""

    def __init__(self, network: Network, workload: Workload, feed: Feed) -> None:
        self.network = network
        super().__init__(network.model, workload, feed)

    def train_once(self) -> Any:
        logs, self.network.state = self._function(self.network.state, self._iterator)
        return logs

    def predict_once(self) -> Any:
        outputs, self.network.state = self._function(self.network.state, self._iterator)
        return outputs

    def wait(self, last: Any) -> None:
        jax.block_until_ready((last, self.network.state))

    def wait_for_model(self) -> None:
        jax.block_until_ready([variable.value for variable in self.model.variables])

    @contextlib.contextmanager
    def fed(self, warm_pipeline: bool = True) -> Iterator[float]:
        if self.network.lost:
            self.network.renew()
        with super().fed(warm_pipeline) as spent_ms:
            yield spent_ms

    def own_loop(self) -> AbstractContextManager[None]:
        """Keep the state in the model's variables while ``fit`` or ``predict`` is called."""
        return self.network.held()

    def make_function(self) -> Any:
        """Make the function while the variables hold the state.

        On several devices it is compiled for the variables' sharding, which empty ones do not have.
        """
        with self.network.held():
            return super().make_function()

    def traces(self) -> int | None:
        compiled = inner_function(self._function)
        return None if compiled is None else int(compiled._cache_size())

    def program(self, batch: Any) -> str | None:
        """Return the text of XLA's compiled program for such a batch, without recompiling.

        Returns None for an eager step, or if this Keras keeps the program elsewhere.
        """
        compiled = inner_function(self._function)
        return None if compiled is None else compiled.lower(self.network.state, batch).compile().as_text()


def inner_function(function: Callable[..., Any]) -> Any:
    """Return the jitted function inside a step, which Keras's function calls through one or two others."""
    if hasattr(function, "lower"):
        return function
    inside = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
    functions = (
        inner_function(called) for called in inside if hasattr(called, "lower") or hasattr(called, "__closure__")
    )
    return next((jitted for jitted in functions if jitted is not None), None)


def _jit_compile(target: Target) -> bool | Literal["auto"]:
    return "auto" if target.execution == "keras" else target.execution == "xla"


def compiled_as(model: Any, target: Target) -> tuple[Compiled, str]:
    """Return how the model's steps run, and why, as in :class:`core.base.evidence.CellSetup`."""
    run: Compiled = "xla" if model.jit_compile and not model.run_eagerly else "eager"
    if target.execution != "keras":
        return run, AS_ASKED
    if run == "xla":
        return run, ONLY_WAY.format(framework=FRAMEWORKS[target.framework].title)
    return run, KERAS_WITHOUT_XLA.format(layers=without_compiler(model) or "this network’s layers")


def versions() -> dict[str, str]:
    import jaxlib

    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "keras": str(keras.__version__)}
