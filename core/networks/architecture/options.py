"""Checks of the arguments of a layer's constructor: one :class:`Option` per argument, with Keras's default."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_LAYERS = 2_000
MAX_INPUTS_OF_A_LAYER = 256
MAX_RANK = 8
"""Axes of one sample or one output, without the batch."""
MAX_OPTION = 2**31 - 1
"""Limit of integers in options: Keras's shapes are 32 bits wide in many kernels."""
MAX_PARAMETERS = 2**32
MAX_ACTIVATIONS = 2**33
"""Values that all layers output or compute inside, for one sample."""
MAX_FLOPS = 2**53
"""Operations of one sample's forward and backward pass: the largest integer that JSON readers keep exactly."""


REQUIRED: Any = object()
"""Marks an option that has no default."""

MAX_NUMBERS = 10_000
MAX_SHOWN = 40

Options = Mapping[str, Any]


class WrongInside(ValueError):
    """An error inside an option's value, already worded as a sentence."""


@dataclass(frozen=True)
class Option:
    """An argument of a layer.

    ``read`` converts a value from JSON or code to its normal form, or raises ValueError; ``accepted`` ends the sentence
    of that error.
    """

    accepted: str
    read: Callable[[Any], Any]
    default: Any = REQUIRED

    def check(self, name: str, value: Any) -> Any:
        try:
            return self.read(value)
        except WrongInside:
            raise
        except ValueError:
            raise ValueError(f"option “{name}” is {shown(value)}; accepted: {self.accepted}") from None


def shown(value: Any) -> str:
    """Return ``value`` printable and short, for use in a sentence."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) >= 10**15:
        return "a number of more than 15 digits"
    if isinstance(value, (dict, list, tuple)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    text = value if isinstance(value, str) else str(value)
    text = "".join(letter for letter in text[: MAX_SHOWN + 1] if letter.isprintable())
    text = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return f"“{text}”" if isinstance(value, str) else text


def read_options(known: Mapping[str, Option], options: Options) -> dict[str, Any]:
    """Return every known option in its normal form, with Keras's defaults for the rest. Raises ValueError."""
    for name in options:
        if name not in known:
            accepted = ", ".join(known) or "none"
            raise ValueError(f"option {shown(str(name))} is not known; known options: {accepted}")
    complete: dict[str, Any] = {}
    for name, option in known.items():
        if name in options:
            complete[name] = option.check(name, options[name])
        elif option.default is REQUIRED:
            raise ValueError(f"option “{name}” is missing; accepted: {option.accepted}")
        else:
            complete[name] = option.default
    return complete


def whole(low: int = 1, high: int = MAX_OPTION, default: Any = REQUIRED) -> Option:
    return Option(f"whole numbers from {low} to {high}", lambda value: _whole(value, low, high), default)


def real(low: float, high: float, default: Any = REQUIRED) -> Option:
    return Option(f"numbers from {low:g} to {high:g}", lambda value: _real(value, low, high), default)


def flag(default: bool) -> Option:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Option("true or false", read, default)


def word(*words: str, default: Any = REQUIRED) -> Option:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return Option(", ".join(f"“{each}”" for each in words), read, default)


def only(value: Any) -> Option:
    """Return an option that is supported only at one value, Keras's default."""

    def read(chosen: Any) -> Any:
        if chosen != value or isinstance(chosen, bool) != isinstance(value, bool):
            raise ValueError
        return value

    return Option({None: "none", True: "true", False: "false"}.get(value, f"“{value}”") + " alone", read, value)


def maybe(option: Option, default: Any = None) -> Option:
    """Return the option, with None accepted as well."""

    return Option(f"{option.accepted}, or none", lambda v: None if v is None else option.read(v), default)


def sizes(rank: int, low: int = 1, high: int = MAX_OPTION, default: Any = REQUIRED) -> Option:
    """Return an option of ``rank`` integers, or one integer that stands for all."""

    def read(value: Any) -> tuple[int, ...]:
        if isinstance(value, (list, tuple)):
            if len(value) not in {1, rank}:
                raise ValueError
            read_all = tuple(_whole(each, low, high) for each in value)
            return read_all * rank if len(read_all) == 1 else read_all
        return (_whole(value, low, high),) * rank

    accepted = f"whole numbers from {low} to {high}" if rank == 1 else f"one or {rank} whole numbers from {low} up"
    return Option(accepted, read, default)


def pair(default: Any) -> Option:
    """Return an option of (before, after) on one axis; a single number stands for both."""
    return sizes(2, low=0, default=default)


def pairs(rank: int, default: Any) -> Option:
    """Return an option of (before, after) on ``rank`` axes; one number, or one per axis, stands for equal pairs."""
    pair_option = pair(REQUIRED)

    def read(value: Any) -> tuple[tuple[int, int], ...]:
        each = value if isinstance(value, (list, tuple)) else (value,) * rank
        if len(each) != rank:
            raise ValueError
        return tuple(pair_option.read(part) for part in each)

    return Option("a whole number from 0, or one or a pair of them for each axis", read, default)


def wholes(low: int, high: int, default: Any = REQUIRED) -> Option:
    """Return an option of one to :data:`core.networks.architecture.strict_json.MAX_RANK` integers, read as a tuple."""

    def read(value: Any) -> tuple[int, ...]:
        many = value if isinstance(value, (list, tuple)) else (value,)
        if not 1 <= len(many) <= MAX_RANK:
            raise ValueError
        return tuple(_whole(each, low, high) for each in many)

    return Option(f"one to {MAX_RANK} whole numbers from {low} to {high}", read, default)


def axis(default: Any = REQUIRED) -> Option:
    """Return an option of one axis, numbered as in Keras with the batch as axis 0; a one-element list is accepted."""

    def read(value: Any) -> int:
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        number = _whole(value, -MAX_RANK, MAX_RANK)
        if number == 0:
            raise ValueError
        return number

    return Option("an axis other than 0, which is the batch", read, default)


def numbers(default: Any = REQUIRED) -> Option:
    """Return an option of one finite number, or (nested) lists of them, read as a number or nested tuples."""

    def read(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            if not 1 <= len(value) <= MAX_NUMBERS:
                raise ValueError
            return tuple(_nested(value, MAX_RANK))
        return _real(value, -math.inf, math.inf)

    return Option("numbers", read, default)


def _nested(values: Sequence[Any], depth: int) -> list[Any]:
    if depth == 0 or len(values) > MAX_NUMBERS:
        raise ValueError
    return [
        tuple(_nested(each, depth - 1)) if isinstance(each, (list, tuple)) else _real(each, -math.inf, math.inf)
        for each in values
    ]


def _whole(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError
    return value


def _real(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    if isinstance(value, int) and abs(value) > MAX_OPTION:
        raise ValueError
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError
    return float(value)
