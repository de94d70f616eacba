"""Batches for a step on PyTorch: on the device, from arrays, or by a DataLoader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from core.spec import Pipeline
from core.worker.feeds import SEED, Feed, kept
from core.worker.protocol import CellFailed
from core.worker.torch.device import Device

Arrays = tuple[np.ndarray, ...]


def on_device(arrays: Arrays, device: Device) -> tuple[Any, ...]:
    """Return the arrays as tensors of the device; on the CPU they share the arrays' memory."""
    return tuple(torch.from_numpy(array).to(device.name) for array in arrays)


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
