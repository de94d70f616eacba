"""What :mod:`core.worker.watch.script` changes in Keras: the calls that a script makes, and the parts inside them.

Loaded by path, beside that module, into the process of a user's script. Keras 3 is what is known here; its private
names are used where nothing public tells as much, and a name that a version lacks is left alone, so that its time
stays unexplained instead of failing the script.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.worker.watch.script import Phase, Watch

LOOPS = ("fit", "evaluate", "predict")
ON_BATCH = {"train_on_batch": "train", "test_on_batch": "test", "predict_on_batch": "predict"}
FUNCTIONS = ("train", "test", "predict")
BATCH_HOOKS = tuple(f"on_{kind}_batch_{when}" for kind in FUNCTIONS for when in ("begin", "end"))
OTHER_HOOKS = (
    "on_epoch_begin", "on_epoch_end", *(f"on_{kind}_{when}" for kind in FUNCTIONS for when in ("begin", "end")),
)  # fmt: skip
INSIDE = {
    "compile": "build", "_symbolic_build": "build", "reset_metrics": "epoch", "get_metrics_result": "epoch",
    "_get_metrics_result_or_logs": "epoch", "make_train_function": "epoch", "make_test_function": "epoch",
    "make_predict_function": "epoch",
}  # fmt: skip
"""Keras's methods that belong to one part."""
OURS = ("ProgbarLogger", "History")
"""Keras's own callbacks."""
MAX_JSON, MAX_EPOCHS = 4_000_000, 10_000
Sizes = Callable[[Any], tuple[int | None, int | None]]


class _Hooks:
    """The changes, with what they share: the current phase, whose steps the compiled functions count."""

    def __init__(self, watch: Watch, keras: Any) -> None:
        self.watch, self.keras = watch, keras
        self.current: list[Phase] = []
        self.epoch = (0.0, 0)
        frameworks = sys.modules.get("_breakeven_framework_hooks")
        self.input = frameworks.INPUT if frameworks is not None and keras.backend.backend() == "tensorflow" else None
        nothing: Sizes = lambda _: (None, None)  # noqa: E731
        self.sizes_of: Sizes = frameworks.sizes_of if frameworks is not None else nothing

    def install(self) -> None:
        trainer = next(
            kind for kind in self.keras.Model.__mro__ if "fit" in vars(kind) and "backend" in kind.__module__
        )
        for name in LOOPS:
            self._replace(trainer, name, self._loop)
        for name in ON_BATCH:
            self._replace(trainer, name, self._on_batch)
        for kind in self.keras.Model.__mro__:
            for name, part in INSIDE.items():
                self._part(kind, name, part)
        for name in FUNCTIONS:
            self._replace(trainer, f"make_{name}_function", self._maker)
        self._watch_calls()
        self._watch_input()
        self._watch_callbacks()
        self.watch.describe = lambda model: describe(self.keras, model)

    def _part(self, owner: Any, name: str, part: str) -> None:
        if name in vars(owner):
            setattr(owner, name, self.watch.around(vars(owner)[name], part))

    @staticmethod
    def _replace(owner: Any, name: str, make: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
        if name in vars(owner):
            setattr(owner, name, make(name, vars(owner)[name]))

    def _loop(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(call)

        @functools.wraps(call)
        def looped(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watch.here:
                return call(model, *args, **kwargs)
            inside = name == "evaluate" and bool(self.current) and self.current[-1].kind == "fit"
            kind = "validation" if inside else name
            facts = _facts(signature, model, args, kwargs)
            phase = self._begin(kind, model, facts.pop("variant", ""))
            facts["epochs"] = phase.facts.get("epochs", 0) + facts.get("epochs", 0)
            phase.facts.update(facts)
            try:
                self.watch.enter("validation" if inside else "loop" if name == "fit" else "calls")
                self.watch.validating = inside
                return call(model, *args, **kwargs)
            finally:
                self.watch.validating = False
                self.watch.leave()
                self._end()

        return looped

    def _begin(self, kind: str, model: Any, variant: str = "") -> Phase:
        if self.watch.part == "callbacks":
            variant += " in callbacks"
        if self.current:
            self._settle(self.current[-1])
        elif self.input is not None:
            self.input.since_last()
        phase = self.watch.phase(kind, model, variant)
        phase.calls += 1
        phase.facts["in_callbacks"] = self.watch.part == "callbacks"
        self.current.append(phase)
        return phase

    def _end(self) -> None:
        phase = self.current.pop()
        self._settle(phase)
        for length, batches in ({} if self.input is None else self.input.lengths_since_last()).items():
            phase.lengths[length] = phase.lengths.get(length, 0) + batches
        self.watch.describe_models()

    def _settle(self, phase: Phase) -> float:
        """Add what the graphs waited for input to its phase, and return it; the first answer tells the batch size."""
        if self.input is None:
            return 0.0
        waited, samples = self.input.since_last()
        phase.wait_s += waited
        phase.samples += samples
        if phase.batch is None and phase.steps == 0 and samples > 0:
            phase.batch = samples
        return float(waited)

    def _on_batch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watch.here or self.current:
                return call(model, *args, **kwargs)
            phase = self._begin(name, model)
            phase.take(*self.sizes_of(args or tuple(kwargs.values())))
            try:
                self.watch.enter("calls")
                return call(model, *args, **kwargs)
            finally:
                self.watch.leave()
                self._end()

        return called

    def _maker(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the compiled function that Keras makes, once for each that it makes."""
        attribute = name.removeprefix("make_")

        @functools.wraps(make)
        def made(model: Any, *args: Any, **kwargs: Any) -> Any:
            result = make(model, *args, **kwargs)
            function = getattr(model, attribute, None)
            if function is not None and not hasattr(function, "breakeven_watched"):
                setattr(model, attribute, self._stepped(function, model))
            return result

        return made

    def _stepped(self, function: Callable[..., Any], model: Any) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if not self.watch.here:
                return function(*args, **kwargs)
            phase = self.current[-1] if self.current else self.watch.phase("own loop", model)
            if phase.kind == "predict" and self.input is not None:  # whose batches Python takes itself
                phase.take(*self.sizes_of(args))
            result = self.watch.step(phase, lambda: function(*args, **kwargs), lambda: self._settle(phase))
            self.watch.end_step()
            return result

        step.breakeven_watched = True  # type: ignore[attr-defined]
        return step

    def _watch_calls(self) -> None:
        """Count ``model(x)`` outside Keras's loops as steps, as well as updates of an optimizer, and layers that are
        called to build a model as building.
        """
        call = self.keras.Model.__call__

        @functools.wraps(call)
        def layer_called(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.watch.part != "own" or not self.watch.here or not self._symbolic(args):
                return call(layer, *args, **kwargs)
            with self.watch.during("build"):
                return call(layer, *args, **kwargs)

        @functools.wraps(call)
        def called(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.watch.here:
                return call(model, *args, **kwargs)
            eager = not self._symbolic(args) and not _in_graph()
            if not self.current or not eager:
                self._learn_shape(model, args)
            if not eager or self.current or self.watch.part != "own":
                return layer_called(model, *args, **kwargs)
            phase = self.watch.phase("call", model)
            phase.calls += 1
            phase.take(*self.sizes_of(args))
            return self.watch.step(phase, lambda: call(model, *args, **kwargs))

        self.keras.layers.Layer.__call__ = layer_called
        self.keras.Model.__call__ = called
        for kind in self.keras.optimizers.Optimizer.__mro__:
            if "apply" in vars(kind) and "keras" in kind.__module__:
                self._replace(kind, "apply", self._apply)

    def _apply(self, _: str, apply: Callable[..., Any]) -> Callable[..., Any]:
        timed = self.watch.around(apply, "steps")

        @functools.wraps(apply)
        def applied(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.optimizers[type(optimizer).__name__] = bool(getattr(optimizer, "momentum", 0.0))
            return timed(optimizer, *args, **kwargs)

        return applied

    def _learn_shape(self, model: Any, args: tuple[Any, ...]) -> None:
        """Keep the shape of what a model is called on, for models that have no known input."""
        if self._symbolic(args) and not self.current:
            return  # a part of a larger model that is being built
        facts = self.watch.models[self.watch.number_of(model)]
        if args and hasattr(args[0], "shape") and "called_with" not in facts:
            facts["called_with"] = [_size(size) for size in args[0].shape]

    def _symbolic(self, args: tuple[Any, ...]) -> bool:
        """Check that a layer is called on symbols, alone or in a list, which builds a part of a model."""
        first = args[0] if args else None
        first = first[0] if isinstance(first, list | tuple) and first else first
        return bool(self.keras.backend.is_keras_tensor(first))

    def _watch_input(self) -> None:
        from keras.src.trainers import epoch_iterator

        for kind in {epoch_iterator.EpochIterator, *epoch_iterator.EpochIterator.__subclasses__()}:
            for name, part in (("__init__", "data"), ("_get_iterator", "input"), ("reset", "input")):
                self._part(kind, name, part)
            self._replace(kind, "tf_sync", self._results)
            if "__next__" in vars(kind):
                kind.__next__ = self._advance(vars(kind)["__next__"])

    def _advance(self, advance: Callable[..., Any]) -> Callable[..., Any]:
        timed = self.watch.around(advance, "input")

        @functools.wraps(advance)
        def advanced(iterator: Any) -> Any:
            result = timed(iterator)
            if self.current and self.watch.here:
                phase = self.current[-1]
                if not phase.facts.get("feed"):
                    phase.facts.update(_feed(iterator))
                if self.input is None and isinstance(result, tuple):
                    phase.take(*self.sizes_of(result[2]))
            return result

        return advanced

    def _watch_callbacks(self) -> None:
        from keras.src import callbacks
        from keras.src.utils import python_utils

        self._replace(python_utils, "pythonify_logs", self._results)
        self._replace(callbacks.CallbackList, "_flush_futures", self._results)
        create, watch = callbacks.CallbackList.__init__, self.watch

        @functools.wraps(create)
        def created(self_: Any, *args: Any, **kwargs: Any) -> None:
            create(self_, *args, **kwargs)
            for callback in self_.callbacks:
                self._watch_callback(callback, callbacks.Callback)

        callbacks.CallbackList.__init__ = watch.around(created, "epoch")
        begin, end = callbacks.CallbackList.on_epoch_begin, callbacks.CallbackList.on_epoch_end

        @functools.wraps(begin)
        def begun(self_: Any, *args: Any, **kwargs: Any) -> None:
            if watch.here and self.current:
                self.epoch = (watch.elapsed_s, self.current[-1].steps)
            begin(self_, *args, **kwargs)

        @functools.wraps(end)
        def ended(self_: Any, *args: Any, **kwargs: Any) -> None:
            end(self_, *args, **kwargs)
            if watch.here and self.current:
                phase, (begin_s, steps) = self.current[-1], self.epoch
                if len(phase.epochs) < MAX_EPOCHS:
                    phase.epochs.append((watch.elapsed_s - begin_s, phase.steps - steps))

        callbacks.CallbackList.on_epoch_begin = begun
        callbacks.CallbackList.on_epoch_end = ended

    def _results(self, _: str, wait: Callable[..., Any]) -> Callable[..., Any]:
        """Count waiting for the results of steps as part of them: a GPU may still compute when its step returns."""
        timed = self.watch.around(wait, "steps")

        @functools.wraps(wait)
        def waited(*args: Any, **kwargs: Any) -> Any:
            if not self.watch.here or not self.current or not (args and args[0]):
                return wait(*args, **kwargs)
            begin_s = self.watch.elapsed_s
            try:
                return timed(*args, **kwargs)
            finally:
                self.current[-1].late_s += self.watch.elapsed_s - begin_s

        return waited

    def _watch_callback(self, callback: Any, base: Any) -> None:
        kind = type(callback)
        if "breakeven_watched" in vars(callback):
            return
        callback.breakeven_watched = True
        own = kind.__name__ not in OURS
        for name in (*BATCH_HOOKS, *OTHER_HOOKS) if own else OTHER_HOOKS:
            if getattr(kind, name, None) is getattr(base, name, None) and kind.__name__ != "LambdaCallback":
                continue
            hook = self.watch.around(
                getattr(callback, name), "callbacks" if own else "epoch", kind.__name__ if own else ""
            )
            setattr(callback, name, hook)


def _size(size: Any) -> int | None:
    return size if isinstance(size, int) else None


def _in_graph() -> bool:
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and hasattr(tensorflow, "executing_eagerly") and not tensorflow.executing_eagerly()


def _facts(signature: inspect.Signature, model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return what the call was asked for, without any data; ``variant`` tells calls with other input apart."""
    try:
        chosen = signature.bind(model, *args, **kwargs).arguments
    except TypeError:
        return {}
    facts: dict[str, Any] = {"steps_per_execution": int(getattr(model, "steps_per_execution", 1) or 1)}
    facts["variant"] = f"{type(chosen.get('x')).__name__} {chosen.get('batch_size')} {chosen.get('steps_per_epoch')}"
    if "epochs" in signature.parameters:
        freq = chosen.get("validation_freq", 1)
        facts["epochs"] = int(chosen.get("epochs", 1)) - int(chosen.get("initial_epoch", 0))
        facts["validates"] = bool(chosen.get("validation_data") is not None or chosen.get("validation_split", 0.0))
        facts["validation_freq"] = freq if isinstance(freq, int) else 1
        facts["class_weight"] = chosen.get("class_weight") is not None
    return facts


def _feed(iterator: Any) -> dict[str, Any]:
    """Return how data are fed: Keras's adapter, the stages of a ``tf.data`` pipeline, and the steps of an epoch."""
    adapter = iterator.data_adapter
    kind = type(adapter).__name__.removesuffix("Adapter")
    facts: dict[str, Any] = {"feed": kind}
    batches = getattr(iterator, "num_batches", None)
    if isinstance(batches, int):
        facts["steps_per_epoch"] = batches
    if isinstance(getattr(adapter, "batch_size", None), int):
        facts["batch_size"] = adapter.batch_size
    stages: list[str] = []
    dataset = getattr(adapter, "_dataset", None)
    while dataset is not None and len(stages) < 30:
        stages.append(type(dataset).__name__.strip("_").removesuffix("Dataset"))
        inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
        dataset = inputs[0] if inputs else None
    if stages:
        facts["stages"] = stages[::-1]
    if kind == "PyDataset":
        facts["workers"] = int(getattr(adapter.py_dataset, "workers", 1))
    return facts


def describe(keras: Any, model: Any) -> dict[str, Any]:
    """Return architecture and training options of a model, without weights."""
    kind = type(model)
    facts: dict[str, Any] = {
        "kind": kind.__name__,
        "name": str(model.name)[:80],
        "plain": kind.__module__.partition(".")[0] == "keras",
        "own_steps": [name for name in ("train_step", "test_step", "predict_step") if _overridden(keras, kind, name)],
        "precision": str(model.dtype_policy.name),
    }
    facts["parameters"] = int(model.count_params()) if model.built else None
    facts["frozen"] = any(not layer.trainable for layer in model._flatten_layers(include_self=False) if layer.weights)
    if getattr(model, "compiled", False):
        facts["jit_compile"] = bool(getattr(model, "jit_compile", False))
        facts["eager"] = bool(model.run_eagerly)
        facts["loss"] = _name_of(getattr(model, "loss", None))
        if getattr(model, "optimizer", None) is not None:
            facts["optimizer"] = type(model.optimizer).__name__
            facts["momentum"] = bool(getattr(model.optimizer, "momentum", 0.0))
    try:
        facts["inputs"] = [[_size(size) for size in tensor.shape] for tensor in model.inputs]
        facts["outputs"] = [[_size(size) for size in tensor.shape] for tensor in model.outputs]
    except (AttributeError, TypeError, ValueError):
        pass  # a model without a known input
    if facts["plain"]:
        try:
            text = model.to_json()
            facts["architecture"] = text if len(text) <= MAX_JSON else None
        except Exception as error:  # a layer's own get_config may raise anything
            facts["why_not"] = type(error).__name__
    return facts


def _overridden(keras: Any, kind: Any, name: str) -> bool:
    return getattr(kind, name) is not getattr(keras.Model, name)


def _name_of(loss: Any) -> str:
    """Return a name of a loss: Keras's, or that of its class or function."""
    if isinstance(loss, str):
        return loss[:60]
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", None) or type(loss).__name__)[:60]


def install(watch: Watch) -> None:
    import keras

    watch.versions["keras"] = keras.__version__
    watch.versions["backend"] = keras.backend.backend()
    watch.gpus = lambda: len(keras.distribution.list_devices("gpu"))
    _Hooks(watch, keras).install()
