"""Display names of targets, built from the options that tell them apart. Files and commands use the notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from core.base.frameworks import FRAMEWORKS, Call, Padding
from core.base.numbers import counted
from core.base.schema import UserError
from core.workload.spec import TARGET_OPTIONS, Target

MAX_IN_TITLE = 60
ALWAYS = ("device", "framework")
"""Options whose value is named whenever it differs, even a default."""
OPTIONS = ("framework", "device", *(name for name in TARGET_OPTIONS if name != "framework"))
SEVERAL = ("threads", "graphs", "steps per execution", "logical CPUs")
EXECUTIONS = {"keras": "default execution", "xla": "XLA", "compile": "compiled", "reduce-overhead": "CUDA graphs"}
CALLS: Mapping[Call, str] = {
    "step": "Keras's own step", "predict": "called by predict()", "predict_on_batch": "called by predict_on_batch()",
    "model": "called as model(x)", "function": "called through a tf.function",
    "relaxed": "called through a tf.function that reduces retracing",
}  # fmt: skip

PADDINGS: Mapping[Padding, str] = {
    "none": "lengths as they come", "longest": "padded to the longest", "buckets": "padded in buckets",
}  # fmt: skip


def shown_names(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return a name per target, such as “1 thread” and “2 threads”, or “CPU”, “GPU 0” and “GPU 0, mixed precision”.

    Different targets get different names. A single target is named by its device, its framework unless it is
    TensorFlow, and everything that is not the default.
    """
    differing = {option for option in OPTIONS if len({getattr(target, option) for target in targets}) > 1}
    if not differing:
        return tuple(full_name(target) for target in targets)
    if "call" in differing:
        differing.add("device")  # what is called
    options = [option for option in OPTIONS if option in differing]
    mixed = len({target.precision for target in targets if target.is_mixed}) > 1
    return tuple(_name(target, options, mixed) for target in targets)


def full_name(target: Target) -> str:
    """Return a name of the device and every option that is not the default."""
    options = [option for option in OPTIONS if option == "device" or not _is_default(target, option)]
    return _name(target, options, tell_16_bits_apart=True)


def notations(targets: Sequence[str]) -> tuple[str, ...]:
    """Return names for targets given in notation; unchanged if one of them is not valid notation (imported points)."""
    try:
        return shown_names([Target.parse(text) for text in targets])
    except UserError:
        return tuple(targets)


def side_by_side(names: Sequence[str]) -> str:
    """Join names as ``a against b``; three or more, which may contain commas, are separated by dots."""
    return (" against " if len(names) < 3 else " · ").join(names)


def in_title(names: Sequence[str]) -> str:
    """Return the joined names if short enough for a title, else the number of targets."""
    words = side_by_side(names)
    return words if len(words) <= MAX_IN_TITLE or len(names) < 3 else f"{len(names)} targets"


def are(name: str) -> str:
    """Return the verb for a displayed target name: ``are`` for 2 threads, ``is`` for GPU 0."""
    first = name.partition(",")[0]
    several = first.endswith(SEVERAL) and "(" not in first  # “this CPU's best (2 threads, XLA)” is one setting
    return "are" if name.startswith("GPUs ") or several else "is"


def one_of(names: Sequence[str]) -> str:
    """Join names as ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def all_of(names: Sequence[str]) -> str:
    """Join names as ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def device_words(device: str) -> str:
    """Return ``GPU 0`` for ``gpu:0``, ``GPUs 0 and 1`` for ``gpu:0+1``, ``2 logical CPUs`` for ``cpu:2``."""
    kind, colon, number = device.partition(":")
    if kind == "cpu" and colon:
        return f"{number} logical CPUs"
    if "+" in number:
        return f"GPUs {_several(number.split('+'))}"
    words = {"cpu": "CPU", "gpu": "GPU", "tpu": "TPU", "mps": "Apple GPU"}[kind]
    return f"{words} {number}" if colon else words


def _several(numbers: Sequence[str]) -> str:
    """Join indices as ``0 and 1``, ``0 to 3`` or ``0, 2 and 3``."""
    first, last = int(numbers[0]), int(numbers[-1])
    if len(numbers) > 2 and last - first + 1 == len(numbers):
        return f"{first} to {last}"
    return all_of(numbers)


def _name(target: Target, options: Sequence[str], tell_16_bits_apart: bool) -> str:
    shown = [option for option in options if option in ALWAYS or not _is_default(target, option)]
    return ", ".join(_words(target, option, tell_16_bits_apart) for option in shown or options[:1])


def _is_default(target: Target, option: str) -> bool:
    return bool(getattr(target, option) == Target.model_fields[option].default)


def _words(target: Target, option: str, tell_16_bits_apart: bool) -> str:
    value = getattr(target, option)
    if option == "device":
        return device_words(value)
    if option == "framework":
        return FRAMEWORKS[value].title
    if option == "threads":
        return "all threads" if value is None else counted(value, "thread")
    if option == "precision":
        return _precision(target, tell_16_bits_apart)
    if option == "execution":
        return EXECUTIONS.get(value, value)
    if option == "call":
        return CALLS[value]
    if option == "pad":
        return PADDINGS[value]
    if option == "python":
        return "own Python" if value is None else str(PurePath(value))
    return f"{counted(value, 'step')} per call"


def _precision(target: Target, tell_16_bits_apart: bool) -> str:
    if target.precision == "float32_strict":
        return "float32 without TF32"
    if not target.is_mixed:
        return target.precision
    return f"mixed precision ({target.precision.removeprefix('mixed_')})" if tell_16_bits_apart else "mixed precision"
