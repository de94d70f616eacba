"""Proof that each of several devices gets its share of a batch and holds the same network. No framework.

The framework's facts (how many samples are on which device, a device's copy of a variable) come in as plain numbers and
arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from core.worker.protocol import CellFailed
from core.workload.names import all_of

COMPARED = 8  # variables whose copies are compared: the smallest, such as biases
ALIKE = 1e-3  # relative to the largest value: devices of different kinds round differently
NO_ALL_REDUCE = (
    "What the all-reduce takes is not known: no kernel of NCCL is in the trace, and other copies and sums look like "
    "operations of the step itself."
)


def check_sizes(sizes: Sequence[int], whole: int, devices: Sequence[str]) -> None:
    """Check that the samples per device, ``sizes``, are equal shares of a batch of ``whole``.

    Raises CellFailed ``error`` otherwise, for instance if every device has the whole batch.
    """
    if len(sizes) != len(devices) or {size * len(devices) for size in sizes} != {whole}:
        listed = " and ".join(map(str, sizes))
        raise CellFailed(
            "error", f"{all_of(devices)} were given {listed} samples of a batch of {whole}, not an equal share each."
        )


def check_lying(lie_on: Sequence[str], devices: Sequence[str]) -> None:
    """Raise CellFailed ``misplaced`` unless the shares of a batch are on the devices, in their order."""
    if tuple(lie_on) != tuple(devices):
        raise CellFailed("misplaced", f"The shares of a batch lie on {', '.join(lie_on)}, not on {all_of(devices)}.")


def compared(variables: Iterable[Any]) -> list[Any]:
    """Return the variables whose copies are compared."""
    return sorted(variables, key=lambda variable: math.prod(variable.shape))[:COMPARED]


def check_copies(path: str, copies: Sequence[np.ndarray], devices: Sequence[str]) -> None:
    """Check after a training step that all devices' copies of a variable agree with the first's.

    Raises CellFailed otherwise: then a copy was updated by gradients other than the sum.
    """
    first, *others = copies
    apart = max(float(np.abs(other - first).max()) for other in others)
    if apart > ALIKE * float(np.abs(first).max()):
        raise CellFailed(
            "error", f"After one step {path} is not the same on {all_of(devices)}: gradients were not summed."
        )
