"""Networks built by user code, named ``package.module:function`` and described by a worker that ran the code.

A plan or a run that names code is plain data: reading, showing and validating it imports nothing. Only
:meth:`Code.build` and a worker's ``describe`` import the user's module, in a worker that was allowed to
(:class:`core.worker.protocol.Hello`).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import sysconfig
import tempfile
import traceback
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from core.base.schema import UserError
from core.networks.architecture.counts import LayerCount
from core.networks.families.base import Network

ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
MAX_ENTRY, MAX_FOLDER, MAX_NAME = 200, 4_096, 120
MAX_LAYERS = 4_000
MAX_COUNT = 2**60
MAX_RANK = 6
MAX_DIMENSION = 2**24
MAX_DETAIL = 160
OWN_PACKAGE = "core"
OURS = str(Path(__file__).parents[2]) + os.sep
NOT_OWN = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(tempfile.gettempdir(), "__autograph_generated_file")),
)
"""Path prefixes of files that are not the user's."""
TRACED_FROM = re.compile(r'File "([^"<>\n]+)", line (\d+)')

Dimension = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]


class CodeError(UserError):
    """User code could not be called, or built something that cannot be measured."""


class Code(Network):
    """A network as ``entry`` built it when a worker described it.

    ``folder`` is searched first for its module. ``sample_shape`` is one sample's; ``tokens`` the number of token ids,
    if samples hold them; ``positions`` the axes of the output before its last one, which has ``outputs`` values, logits
    or probabilities. ``counts`` come from the architecture if all its layers are known, else from Keras and
    TensorFlow's profiler (:mod:`core.worker.tensorflow.code`), or from PyTorch's counter
    (:mod:`core.worker.pytorch.code`) if it ``returns`` a PyTorch module, which only framework=pytorch runs.
    """

    title: ClassVar[str] = "Your own code"
    given_by: ClassVar[str] = "give it with --model on the command line"

    family: Literal["code"] = "code"
    entry: str
    folder: str
    sample_shape: Annotated[tuple[Dimension, ...], Field(min_length=1, max_length=MAX_RANK)]
    tokens: Dimension | None = None
    outputs: Dimension
    positions: Annotated[tuple[Dimension, ...], Field(max_length=MAX_RANK)] = ()
    logits: bool = True
    counts: Annotated[tuple[LayerCount, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    returns: Literal["keras", "pytorch"] = "keras"

    @field_validator("entry")
    @classmethod
    def _entry(cls, value: str) -> str:
        return check_entry(value)

    @field_validator("folder")
    @classmethod
    def _folder(cls, value: str) -> str:
        # POSIX or Windows: a run may come from either
        absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
        if len(value) > MAX_FOLDER or not value.isprintable() or not absolute:
            raise ValueError("folder must be an absolute path")
        return value

    @field_validator("counts")
    @classmethod
    def _sane(cls, value: tuple[LayerCount, ...]) -> tuple[LayerCount, ...]:
        for layer in value:
            numbers = [number for number in vars(layer).values() if isinstance(number, int)]
            if not all(0 <= number <= MAX_COUNT for number in numbers):
                raise ValueError(f"a layer's counts must lie between 0 and {MAX_COUNT}")
            if len(layer.name) > MAX_NAME or not layer.name.isprintable():
                raise ValueError(f"a layer's name must have at most {MAX_NAME} printable characters")
        return value

    @property
    def name(self) -> str:
        return self.entry

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.sample_shape

    @property
    def classes(self) -> int:
        return self.outputs

    @property
    def vocabulary(self) -> int | None:
        return self.tokens

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.positions

    @property
    def from_logits(self) -> bool:
        return self.logits

    @property
    def layers(self) -> tuple[LayerCount, ...]:
        return self.counts

    @classmethod
    def from_name(cls, name: str) -> Self:
        raise UserError(f"“{name[:MAX_NAME]}” names no network of your own code; {cls.given_by}.")

    def build(self, keras: Any) -> Any:
        """Return the model that the code builds now, checked against its description and the precision in force.

        Raises CodeError.
        """
        policy = keras.mixed_precision.dtype_policy()
        model = call_entry(self.entry, self.folder)
        shapes = shapes_of(keras, model, self.entry)
        weights = sum(layer.parameters for layer in self.counts)
        if shapes != (self.sample_shape, (*self.positions, self.outputs)) or model.count_params() != weights:
            raise CodeError(
                f"{self.entry} builds another model now ({model.count_params():,} parameters) than it was described "
                f"with ({weights:,}); begin again with --model {self.entry}."
            )
        self._check_precision(keras, model, policy)
        return model

    def _check_precision(self, keras: Any, model: Any, policy: Any) -> None:
        """Check that the layers compute in the target's precision; a saved model or the code may set another one."""
        keras.mixed_precision.set_dtype_policy(policy)
        computes = {str(layer.compute_dtype) for layer in model._flatten_layers(include_self=False) if layer.weights}
        wanted = str(policy.compute_dtype)
        # under mixed precision some layers may stay in float32; under float32 no layer may use another type
        if computes and (wanted not in computes or (wanted == "float32" and computes != {wanted})):
            raise CodeError(
                f"The layers that {self.entry} builds compute in {', '.join(sorted(computes))}, where this target asks "
                f"for {wanted}: they set their own precision. Leave it to Keras's global policy."
            )


def refuse_code(network: Network) -> None:
    """Raise CodeError if the network would import user code, for callers that must not."""
    if isinstance(network, Code):
        entry = network.entry
        raise CodeError(f"This workload is built by code ({entry}); run it from the command line with --model {entry}.")


def check_entry(text: str) -> str:
    """Return the text if it has the form package.module:function. Raises CodeError."""
    if len(text) > MAX_ENTRY or not ENTRY.fullmatch(text):
        shown = "".join(c for c in text[:MAX_NAME] if c.isprintable())
        raise CodeError(f"“{shown}” names no function; write package.module:function, such as train.models:make.")
    if text.partition(":")[0].split(".")[0] == OWN_PACKAGE:
        raise CodeError(
            f"“{text}” cannot be imported, since Breakeven's own package is called {OWN_PACKAGE}; "
            "put a module beside yours that imports the function under another path."
        )
    return text


def call_entry(entry: str, folder: str) -> Any:
    """Import the module and call its function without arguments. Raises CodeError.

    ``folder`` stays first on the module path, as if Python had been started with a script in it.
    """
    module_name, _, function_name = entry.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # SystemExit, or an exception class of the user's
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            where = f"in {folder} or among the installed packages"
            raise CodeError(f"There is no module “{module_name}” {where}.") from None
        raise CodeError(f"Importing {module_name} failed: {in_words(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "has nothing called" if function is None else "has no function, but other data, called"
        raise CodeError(f"The module “{module_name}” {what} “{function_name}”.")
    try:
        return function()
    except BaseException as error:  # SystemExit, or an exception class of the user's
        raise CodeError(f"{entry} failed, called without arguments: {in_words(error)}") from error


def refuse_modules_of(apart_from: str, folder: str) -> None:
    """Raise CodeError if a module was imported from ``apart_from``, the checkout that ``folder``'s is compared with.

    Both sides would then run the same code. Either checkout may lie inside the other.
    """
    own, other = Path(folder).resolve(), Path(apart_from).resolve()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or file.startswith((OURS, *NOT_OWN)):
            continue
        path = Path(file).resolve()
        is_own = path.is_relative_to(own) and not (other.is_relative_to(own) and path.is_relative_to(other))
        if path.is_relative_to(other) and not is_own:
            raise CodeError(
                f"The code in {folder} imported {name} from {apart_from}, so that both checkouts would run the same "
                "code; run the command in the folder that the package lies in (such as src), without it in PYTHONPATH."
            )


def in_words(error: BaseException) -> str:
    """Return type, first line and origin of an exception, as the end of a sentence."""
    text = _text(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    detail = "".join(c for c in first if c.isprintable())[:MAX_DETAIL].rstrip(".")
    own, frames = _frames(error)
    where = (own or frames)[-1:]
    return f"{type(error).__name__}{': ' if detail else ''}{detail}{''.join(map(_shown, where))}."


def own_place(error: BaseException) -> str:
    """Return the place in the user's own code where an exception was raised, as in `` (models.py, line 3)``, or ""."""
    return "".join(map(_shown, _frames(error)[0][-1:]))


def _frames(error: BaseException) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return file and line of each call that led to an exception, without ours: those in the user's code, and all."""
    called = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    # a traced function's frames are gone; its source position is in the message
    called += [(name, int(line)) for name, line in TRACED_FROM.findall(_text(error))]
    frames = [frame for frame in called if not frame[0].startswith((OURS, "<"))]
    return [frame for frame in frames if not frame[0].startswith(NOT_OWN)], frames


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # the user's own exception class may have a failing __str__
        return ""


def _shown(frame: tuple[str, int]) -> str:
    return f" ({Path(frame[0]).name}, line {frame[1]})"


def is_torch_module(value: Any) -> bool:
    """Return True for an ``nn.Module``, or a sequence that begins with one, but not a Keras model; imports nothing."""
    first = value[0] if isinstance(value, tuple | list) and value else value
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(first).__mro__}
    return "torch.nn.modules.module.Module" in kinds and not any(kind.startswith("keras.") for kind in kinds)


def shapes_of(keras: Any, model: Any, entry: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of one sample and of its output. Raises CodeError if the network cannot be fed and scored."""
    if is_torch_module(model):
        raise CodeError(
            f"{entry} returned a module of PyTorch; measure it with targets of framework=pytorch, such as "
            "cpu,framework=pytorch."
        )
    if not isinstance(model, keras.Model):
        kind = f"{type(model).__module__}.{type(model).__name__}" if model is not None else "nothing"
        raise CodeError(f"{entry} returned {kind}; it must return a keras.Model of Keras {keras.__version__}.")
    inputs, outputs = (getattr(model, side, None) or () for side in ("inputs", "outputs"))
    if not inputs or not outputs:
        raise CodeError(
            f"The model of {entry} has no known shape of input; build it as a functional or Sequential model that "
            "begins with keras.Input(shape=…)."
        )
    if (len(inputs), len(outputs)) != (1, 1):
        raise CodeError(
            f"The model of {entry} must have one input and one output; it has {len(inputs)} and {len(outputs)}."
        )
    shapes = tuple(tuple(side[0].shape[1:]) for side in (inputs, outputs))
    for side, shape in zip(("input", "output"), shapes, strict=True):
        if not shape or None in shape:
            sizes = ", ".join("?" if size is None else str(size) for size in shape) or "one number"
            raise CodeError(f"The {side} of {entry} has shape ({sizes}) a sample; every size must be known.")
    return shapes[0], shapes[1]
