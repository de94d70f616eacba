"""Published steps as arrays, with one entry per step and the operations of all steps in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.operations import Column, Points
from benchmarks.evidence.rows import NetworkRow
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import KINDS, Constants
from core.hardware.model import attends_in_one_kernel, is_reordered, runs_as, transfer_time
from core.hardware.work import OpTable, step_table
from core.workload.spec import Precision

Array = NDArray[np.float64]
Words = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measured steps and their operations.

    ``machine`` names the host: one measured by its own tiny steps, none if a time is the device's own, or
    ``kind:server`` and the like. ``row`` gives for each operation of ``ops`` the step to which it belongs, ``times``
    how often it runs in it, ``depth`` the length of a sum that old libraries ran slowly, 0 elsewhere. ``bound``: the
    time is only an upper bound.
    """

    source: Words
    family: Words
    phase: Words
    gpu: Words
    machine: Words
    precision: Words
    compiled: NDArray[np.bool_]
    eager: NDArray[np.bool_]
    fused: NDArray[np.bool_]
    under_fit: NDArray[np.bool_]
    reordered: NDArray[np.bool_]
    batch: Array
    measured_ms: Array
    transfer_ms: Array
    host_ops: Array
    tiny: NDArray[np.bool_]
    bound: NDArray[np.bool_]
    row: NDArray[np.int64]
    times: Array
    depth: Array
    ops: OpTable

    def __len__(self) -> int:
        return len(self.measured_ms)

    def where(self, keep: NDArray[np.bool_]) -> Evidence:
        """Return the steps that ``keep`` marks, with their operations."""
        new = np.cumsum(keep) - 1
        mine = keep[self.row]
        return Evidence(
            **{name: getattr(self, name)[keep] for name in _STEPS},
            row=new[self.row[mine]],
            times=self.times[mine],
            depth=self.depth[mine],
            ops=_picked(self.ops, mine),
        )


_STEPS = tuple(f.name for f in fields(Evidence) if f.name not in ("row", "times", "depth", "ops"))


def _picked(ops: OpTable, mine: NDArray[Any]) -> OpTable:
    return OpTable(**{f.name: getattr(ops, f.name)[mine] for f in fields(OpTable)})


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Concatenate all parts."""
    starts = np.cumsum([0, *(len(part) for part in parts)])
    return Evidence(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _STEPS},
        row=np.concatenate([part.row + start for part, start in zip(parts, starts, strict=False)]),
        times=np.concatenate([part.times for part in parts]),
        depth=np.concatenate([part.depth for part in parts]),
        ops=OpTable(**{f.name: np.concatenate([getattr(part.ops, f.name) for part in parts]) for f in fields(OpTable)}),
    )


def of_points(points: Points) -> Evidence:
    """Convert single layers and operations."""
    size = len(points.measured_ms)
    pieces = [_of_column(column) for column in points.columns]
    half = any(column.peak == "half" for column in points.columns)
    depths = [np.zeros(size) if c.depth is None else c.depth[:, 0] for c in points.columns]
    steps: dict[str, Any] = {
        name: np.zeros(size, dtype=bool) for name in ("compiled", "eager", "fused", "under_fit", "reordered", "bound")
    }
    steps |= {name: np.full(size, getattr(points, name)) for name in ("source", "family", "phase")}
    names = ("gpu", "machine", "batch", "measured_ms", "host_ops", "tiny")
    steps |= {name: getattr(points, name) for name in names}
    precision = "mixed_float16" if half else "float32_strict"
    return Evidence(
        **steps,
        precision=np.full(size, precision),
        transfer_ms=np.zeros(size),
        row=np.tile(np.arange(size), len(pieces)),
        times=np.ones(size * len(pieces)),
        depth=np.concatenate(depths),
        ops=OpTable(**{f.name: np.concatenate([getattr(p, f.name) for p in pieces]) for f in fields(OpTable)}),
    )


def _of_column(column: Column) -> OpTable:
    size = len(column.flops)
    product = column.kind == "dense"
    return OpTable(
        kind=np.full(size, KINDS.index(column.kind)),
        kernels=column.launches[:, 0],
        flops=column.flops[:, 0],
        bytes=column.moved[:, 0],
        tiles=np.full(size, np.inf) if column.tiles is None else column.tiles[:, 0],
        tensor=np.full(size, product),
    )


def of_networks(rows: Iterable[NetworkRow], cards: dict[str, GpuSpec], constants: Constants) -> Evidence:
    """Convert whole networks; the transfer is that of the batch over the card's link."""
    parts = [_of_network(row, cards[row.gpu], constants) for row in rows]
    return joined(parts)


def _of_network(row: NetworkRow, spec: GpuSpec, constants: Constants) -> Evidence:
    target = runs_as(row.workload, row.target, row.conditions.build)
    flash = attends_in_one_kernel(spec, row.conditions)
    ops = step_table(row.workload, target, row.batch, row.conditions.build, flash)
    build = row.conditions.build
    fed = transfer_time(spec, row.workload, row.batch, constants, build) if row.conditions.fed else 0.0
    values: dict[str, Any] = {
        "source": row.source,
        "family": row.kind,
        "phase": "train" if row.workload.training else "infer",
        "gpu": row.gpu,
        "machine": f"kind:{row.host}",
        "precision": target.precision,
        "compiled": target.execution == "xla",
        "eager": target.execution == "eager",
        "fused": row.conditions.build == "fused",
        "under_fit": row.conditions.under_fit,
        "reordered": is_reordered(target, row.conditions),
        "batch": float(row.batch),
        "measured_ms": row.step_ms,
        "transfer_ms": fed,
        "host_ops": float(ops.kernels.sum()),
        "tiny": False,
        "bound": row.upper,
    }
    steps: dict[str, Any] = {name: np.array([value]) for name, value in values.items()}
    different, times = _different(ops)
    size = len(times)
    return Evidence(**steps, row=np.zeros(size, dtype=np.int64), times=times, depth=np.zeros(size), ops=different)


def _different(ops: OpTable) -> tuple[OpTable, Array]:
    """Return the distinct operations, and how often each occurs, since blocks of a network repeat."""
    names = [f.name for f in fields(OpTable)]
    columns = np.stack([getattr(ops, name).astype(float) for name in names], axis=1)
    _, first, counts = np.unique(columns, axis=0, return_index=True, return_counts=True)
    return OpTable(**{name: getattr(ops, name)[first] for name in names}), counts.astype(float)


def groups(evidence: Evidence) -> list[tuple[str, Precision, NDArray[np.int64]]]:
    """Group operations by card and precision, which determine their rates."""
    keys = np.char.add(np.char.add(evidence.gpu, "|"), evidence.precision)
    parts = []
    for key in np.unique(keys):
        gpu, precision = str(key).split("|")
        parts.append((gpu, precision, np.flatnonzero((keys == key)[evidence.row])))
    return parts  # type: ignore[return-value]
