"""Run a script up to its model, in a worker that may: used by the module that :mod:`core.studies.job.rerun` writes.

Loaded by path, since the worker's module path begins with a folder of the study.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STEPS = ("make_train_function", "make_test_function", "make_predict_function")
"""Methods that Keras calls once a model is built and about to take its first step."""


class Reached(BaseException):
    """The model is there. No ``except Exception`` of the script's catches it."""


def model_of(path: str, arguments: Sequence[str], is_module: bool, number: int, shape: tuple[int, ...] | None) -> Any:
    """Return the script's model in place ``number``, in the order of first use.

    It comes as a functional model of its layers without training code of its own; one without known inputs becomes a
    layer of a model whose input has that ``shape``.
    """
    import keras

    seen: list[Any] = []
    with _until_model(keras, seen, number), tempfile.TemporaryDirectory(prefix="breakeven-rerun-") as folder:
        before, arguments_before, here = list(sys.path), sys.argv, Path.cwd()
        sys.argv = [path, *arguments]
        os.chdir(folder)
        try:
            with contextlib.suppress(Reached):
                if is_module:
                    runpy.run_module(path, run_name="__main__", alter_sys=True)
                else:
                    sys.path.insert(0, str(Path(path).parent))
                    runpy.run_path(path, run_name="__main__")
        finally:
            os.chdir(here)
            sys.path[:], sys.argv = before, arguments_before
    if len(seen) <= number:
        raise RuntimeError(f"run again, it used {len(seen)} models, and {number + 1} when it was captured")
    return _functional(keras, seen[number], shape)


def _functional(keras: Any, model: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is not None:
        inputs = keras.Input(shape)
        return keras.Model(inputs, model(inputs))
    if isinstance(model, keras.Sequential) or type(model) is keras.Model:
        return model
    return keras.Model(model.inputs, model.outputs)


@contextlib.contextmanager
def _until_model(keras: Any, seen: list[Any], number: int) -> Any:
    """Raise Reached as soon as the model with that number is about to take its first step."""

    def reached(model: Any) -> None:
        if not any(model is known for known in seen):
            seen.append(model)
        if len(seen) > number:
            raise Reached

    changed: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, function: Any) -> None:
        changed.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, function)

    for kind in keras.Model.__mro__:
        for name in set(STEPS) & set(vars(kind)):
            replace(kind, name, lambda model, *_, **__: reached(model))
    call = keras.Model.__call__

    def called(model: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(model, *args, **kwargs)
        if args and not keras.backend.is_keras_tensor(args[0]) and model.built and not _inside_keras():
            reached(model)
        return result

    replace(keras.Model, "__call__", called)
    try:
        yield
    finally:
        for owner, name, function in reversed(changed):
            if function is None:
                delattr(owner, name)
            else:
                setattr(owner, name, function)


def _inside_keras() -> bool:
    """Tell whether a model was called by Keras itself, as part of another, or to build it."""
    frame: Any = sys._getframe(2)
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith("keras.")
