"""Actual placement of a step on PyTorch, read from its tensors, and for an eager step from every operation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Sampler, TensorDataset

from core.worker.cells import Placement
from core.worker.feeds import SEED, Feed, each, kept
from core.worker.protocol import CellFailed
from core.worker.torch.device import Device
from core.workload.spec import Pipeline

HEAVY = ("mm", "conv", "attention", "rnn", "lstm", "gru")
"""Parts of the names of operations that hold a network's arithmetic: one on the host means no GPU was measured."""


class _Watch(TorchDispatchMode):
    """Counts operations by name and the device of their outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func).removeprefix("aten.").partition(".")[0]
        self.placed.update({(tensor.device.type, name) for tensor in _tensors(result)})
        return result


def watch_step(step: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """Count how often each (kind of device, operation) ran in an eager step."""
    with _Watch() as watch:
        step()
    return watch.placed


def verify(
    device: Device,
    tensors: Mapping[str, Iterable[Any]],
    placed: Counter[tuple[str, str]] | None = None,
    compiled: str = "",
) -> Placement:
    """Return the placement of a step that belongs on ``device``; ``tensors`` are its tensors by description.

    ``placed`` is from :func:`watch_step`, or None if the step is ``compiled``, by the compiler named there. Scalars,
    such as an optimizer's counters, may be on the host. Raises CellFailed ``misplaced``.
    """
    for what, group in tensors.items():
        lie_on = {str(tensor.device) for tensor in _tensors(group) if tensor.dim()}
        if strays := sorted(lie_on - {device.name}):
            raise CellFailed("misplaced", f"{what} lie on {', '.join(strays)}, not on {device.name}.")
    if placed is None:
        return Placement((f"{device.shown} (program compiled by {compiled})",))
    elsewhere = sorted({name for where, name in placed if where != device.kind})
    if heavy := [name for name in elsewhere if any(sign in name for sign in HEAVY)]:
        raise CellFailed("misplaced", f"{', '.join(heavy)} ran on another device than {device.name}.")
    counts: Counter[str] = Counter()
    for (where, _), number in placed.items():
        counts[device.shown if where == device.kind else f"{where.upper()}:0"] += number
    if not counts[device.shown]:
        raise CellFailed("misplaced", f"No operation of the step ran on {device.name}.")
    summary = tuple(f"{where} ({number} operations)" for where, number in sorted(counts.items()))
    return Placement(summary, tuple(elsewhere))


def _tensors(values: Any) -> list[Any]:
    return [
        leaf
        for leaf in tree_leaves(list(values) if hasattr(values, "__next__") else values)
        if isinstance(leaf, torch.Tensor)
    ]


Arrays = tuple[np.ndarray, ...]


def on_device(arrays: Arrays, device: Device) -> tuple[Any, ...]:
    """Return the arrays as tensors of the device; on the CPU they share the arrays' memory."""
    return each(lambda array: torch.from_numpy(array).to(device.name), arrays)


def resident(arrays: Arrays, device: Device) -> Feed:
    """Return a feed that repeats one batch on the device."""
    return kept(itertools.repeat(on_device(arrays, device)))


def handed_over(arrays: Arrays, batch: int, device: Device) -> Feed:
    """Return a feed that cycles through batches of the arrays, each copied to the device when drawn."""
    batches = [tuple(a[i : i + batch] for a in arrays) for i in range(0, len(arrays[0]), batch)]
    return kept(on_device(each, device) for each in itertools.cycle(batches))


def loaded(arrays: Arrays, batch: int, device: Device, pipeline: Pipeline) -> Feed:
    """Return a feed as in PyTorch's tutorials: a DataLoader in this process collates sample by sample.

    Raises CellFailed for any other option of a ``tf.data`` pipeline.
    """
    if pipeline.model_copy(update={"shuffle": False}) != Pipeline(kind="tfdata"):
        raise CellFailed(
            "error",
            "Native PyTorch is fed by a DataLoader in the worker's own process, which of a tf.data pipeline's options "
            "has shuffle alone; leave the others out.",
        )
    samples = TensorDataset(*map(torch.from_numpy, arrays))
    loader = DataLoader(samples, batch, sampler=_Endless(len(samples), pipeline.shuffle), drop_last=True)
    return Feed(lambda: (tuple(part.to(device.name) for part in each) for each in loader))


class _Endless(Sampler[int]):
    """Every sample repeatedly, so that no epoch ends within a block; in a new order each time if shuffled."""

    def __init__(self, count: int, shuffled: bool) -> None:
        self._count, self._shuffled = count, shuffled

    def __iter__(self) -> Iterator[int]:
        drawn = torch.Generator().manual_seed(SEED)
        while True:
            yield from torch.randperm(self._count, generator=drawn).tolist() if self._shuffled else range(self._count)
