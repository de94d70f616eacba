"""Batches for a step on PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from core.worker.torch.device import Device


def on_device(arrays: tuple[np.ndarray, ...], device: Device) -> tuple[Any, ...]:
    """The arrays as tensors of the device; on the CPU they are the arrays' own memory."""
    return tuple(torch.from_numpy(array).to(device.name) for array in arrays)


def resident(arrays: tuple[np.ndarray, ...], device: Device) -> Iterator[Any]:
    """The same batch on the device, whenever it is asked."""
    return itertools.repeat(on_device(arrays, device))
