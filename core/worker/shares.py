"""Proof that each of several devices is given its share of a batch and holds the same network. No framework.

What a framework's own objects say (how many samples lie on which device, a device's copy of a variable) comes in here
as plain numbers and arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from core.names import all_of
from core.worker.protocol import CellFailed

COMPARED = 8  # variables of which all copies are looked at: the smallest, such as biases
ALIKE = 1e-3  # of the largest value: devices of different kinds round differently
NO_ALL_REDUCE = (
    "What the all-reduce takes is not known: no kernel of NCCL is in the trace, and other copies and sums look like "
    "operations of the step itself."
)


def check_sizes(sizes: Sequence[int], whole: int, devices: Sequence[str]) -> None:
    """``sizes`` are the samples of a batch of ``whole`` on each device. Raises CellFailed ``error`` where these are not
    equal shares, such as where every device has the whole batch.
    """
    if len(sizes) != len(devices) or {size * len(devices) for size in sizes} != {whole}:
        given = " and ".join(map(str, sizes))
        raise CellFailed(
            "error", f"{all_of(devices)} were given {given} samples of a batch of {whole}, not an equal share each."
        )


def check_lying(lie_on: Sequence[str], devices: Sequence[str]) -> None:
    """Raises CellFailed ``misplaced`` where the shares of a batch lie elsewhere than on the devices, in their order."""
    if tuple(lie_on) != tuple(devices):
        raise CellFailed("misplaced", f"The shares of a batch lie on {', '.join(lie_on)}, not on {all_of(devices)}.")


def compared(variables: Iterable[Any]) -> list[Any]:
    """The variables whose copies are compared."""
    return sorted(variables, key=lambda variable: math.prod(variable.shape))[:COMPARED]


def check_copies(path: str, copies: Sequence[np.ndarray], devices: Sequence[str]) -> None:
    """After a training step. Raises CellFailed where a device's copy of a variable is another one than the first's:
    then it was updated by other gradients than the sum.
    """
    first, *others = copies
    apart = max(float(np.abs(other - first).max()) for other in others)
    if apart > ALIKE * float(np.abs(first).max()):
        raise CellFailed(
            "error", f"After one step {path} is not the same on {all_of(devices)}: gradients were not summed."
        )
