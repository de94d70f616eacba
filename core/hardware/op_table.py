"""A step's operations as arrays, so that hundreds of operations on dozens of cards are computed at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from core.hardware.conditions import Build
from core.hardware.constants import KINDS
from core.hardware.layers import PRODUCTS
from core.hardware.work import Op, ops_of
from core.spec import Target, Workload

Floats = NDArray[np.float64]
TENSOR_KINDS = PRODUCTS | {"attention", "recurrent"}


@dataclass(frozen=True, eq=False)
class OpTable:
    """Arrays with one entry per operation.

    ``kind`` is its index in :data:`~core.hardware.constants.KINDS`; ``tensor`` is True if it may use tensor cores; the
    rest is as in :class:`~core.hardware.work.Op`.
    """

    kind: NDArray[np.int64]
    kernels: Floats
    flops: Floats
    bytes: Floats
    tiles: Floats
    tensor: NDArray[np.bool_]


def table_of(ops: tuple[Op, ...]) -> OpTable:
    """Convert operations to arrays."""
    return OpTable(
        kind=np.array([KINDS.index(op.kind) for op in ops]),
        kernels=np.array([op.kernels for op in ops], dtype=float),
        flops=np.array([op.flops for op in ops]),
        bytes=np.array([op.bytes for op in ops]),
        tiles=np.array([op.tiles for op in ops]),
        tensor=np.array([op.tensor and op.kind in TENSOR_KINDS for op in ops]),
    )


@lru_cache(maxsize=4096)
def step_table(workload: Workload, target: Target, batch: int, build: Build, flash: bool = False) -> OpTable:
    """Return the operations of one step; the execution of ``target`` must not be left to Keras."""
    return table_of(ops_of(workload, target, batch, build, flash))
