"""Proof that a step on JAX runs on all devices of its target, each on its share of the batch.

Keras's DataParallel copies the network to every device and distributes each batch in equal shares. Keras's own function
is then one program that XLA partitions by the sharding of its inputs (SPMD): every device runs it on its share, and XLA
sums what depends on all samples, such as gradients, with all-reduces. Two things can go wrong: a device gets the whole
batch, which gives the same numbers at the cost of one device, or a sum is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from core.base.numbers import counted
from core.worker import shares
from core.worker.cells import Placement
from core.worker.jax.devices import Devices
from core.worker.jax.step import JaxStep
from core.worker.protocol import CellFailed

_COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\(")


def first_step(step: JaxStep, devices: Devices) -> tuple[float, Placement]:
    """Run the first call of a fed step on several devices; return its ms and placement. Draws one batch before it.

    Raises CellFailed ``misplaced`` or ``error``.
    """
    batch = next(step.iterator)
    for part in batch:
        check_shares(part, devices)
    first_ms = step.run(1)
    placed = placement(step, devices)
    if not step.training:
        for part in jax.tree_util.tree_leaves(step.last):
            check_shares(part, devices)  # a device's results belong to its own samples
        return first_ms, placed
    for path, copies in _copies(step):
        shares.check_copies(path, copies, devices.names)
    return first_ms, _with_exchanges(step, batch, devices, placed)


def check_shares(part: Any, devices: Devices) -> None:
    """Raise CellFailed unless an array of samples lies in equal shares on the devices, in their order."""
    pieces = sorted(part.addressable_shards, key=lambda piece: piece.index[0].start or 0)
    shares.check_sizes([int(piece.data.shape[0]) for piece in pieces], int(part.shape[0]), devices.names)
    shares.check_lying([devices.name_of(piece.device) for piece in pieces], devices.names)


def placement(step: JaxStep, devices: Devices) -> Placement:
    """Return the placement of a step's state and outputs, which is where JAX ran it.

    Raises CellFailed ``misplaced`` unless all are on every device, and the state is replicated.
    """
    wanted = set(devices.found)
    state = jax.tree_util.tree_leaves(step.network.state)
    for leaf in (*state, *jax.tree_util.tree_leaves(step.last)):
        if leaf.devices() != wanted:
            lie_on = ", ".join(sorted(map(devices.name_of, leaf.devices())))
            raise CellFailed(
                "misplaced", f"Parts of the network's state or outputs lie on {lie_on}, not on {devices.words}."
            )
    if not all(leaf.is_fully_replicated for leaf in state):
        raise CellFailed("misplaced", f"Parts of the network are divided among {devices.words}, not copied to each.")
    how = "step run operation by operation" if step.model.run_eagerly else "program compiled by XLA"
    return Placement(tuple(f"{name} ({how})" for name in devices.names))


def collectives(program: str) -> Counter[str]:
    """Count each kind of collective in a compiled program's text."""
    return Counter(_COLLECTIVE.findall(program))


def _copies(step: JaxStep) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the smallest trainable variables' paths, with each device's copy."""
    paths = [variable.path for variable in step.model.trainable_variables]
    by_value = {id(value): path for value, path in zip(step.network.state[0], paths, strict=True)}
    for value in shares.compared(step.network.state[0]):
        yield by_value[id(value)], [np.asarray(piece.data) for piece in value.addressable_shards]


def _with_exchanges(step: JaxStep, batch: Any, devices: Devices, placed: Placement) -> Placement:
    """Return the placement with the compiled program's collectives. Raises CellFailed if gradients are not summed."""
    program = step.program(batch)
    if program is None:
        return placed
    found = collectives(program)
    if not found["all-reduce"] and not found["reduce-scatter"]:
        raise CellFailed(
            "error", f"The program that XLA compiled for {devices.words} has no all-reduce: gradients are not summed."
        )
    words = ", ".join(counted(number, kind) for kind, number in sorted(found.items()))
    return Placement(tuple(f"{text[:-1]}, {words})" for text in placed.summary))
