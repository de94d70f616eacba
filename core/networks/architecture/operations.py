"""Conversion of arithmetic on tensors (``x + y``, ``x * 2``), which Keras 3 writes as operations, to layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.networks.architecture.keras_json import Spec

HINTS = {
    "NotEqual": "it makes the mask of an Embedding with mask_zero=True, and masks are not kept; set mask_zero=False",
    "GetItem": "it indexes a tensor, which is not read; accepted are pooling, cropping and Flatten",
}
NOT_READ = "it is an operation that is not read; accepted are x + y, x − y, x · y and the like"
MERGES = frozenset({"Add", "Subtract", "Multiply", "Maximum", "Minimum"})
SCALED: Mapping[tuple[str, bool], Callable[[float], dict[str, object]]] = {
    ("Add", True): lambda c: {"scale": 1.0, "offset": c},
    ("Add", False): lambda c: {"scale": 1.0, "offset": c},
    ("Subtract", True): lambda c: {"scale": 1.0, "offset": -c},
    ("Subtract", False): lambda c: {"scale": -1.0, "offset": c},
    ("Multiply", True): lambda c: {"scale": c},
    ("Multiply", False): lambda c: {"scale": c},
    ("Divide", True): lambda c: {"scale": 1.0 / c},
    ("TrueDivide", True): lambda c: {"scale": 1.0 / c},
}
"""Options of Rescaling for an operation with a number; the key's flag is True if the tensor comes first."""


def as_layer(spec: Spec, arguments: Sequence[str | float]) -> tuple[str, dict[str, object], tuple[str, ...]]:
    """Return kind, options and inputs of the built-in layer equivalent to the operation. Raises ArchitectureError."""
    tensors = tuple(a for a in arguments if isinstance(a, str))
    if len(arguments) == 2 and len(tensors) == 2 and spec.kind in MERGES:
        return spec.kind, {}, tensors
    if len(arguments) == 2 and len(tensors) == 1:
        number = next(a for a in arguments if not isinstance(a, str))
        make = SCALED.get((spec.kind, isinstance(arguments[0], str)))
        if make and (number or not spec.kind.endswith("Divide")):
            return "Rescaling", make(float(number)), tensors
    raise spec.refused(HINTS.get(spec.kind, NOT_READ))
