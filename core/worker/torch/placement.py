"""Actual placement of a step on PyTorch, read from its tensors, and for an eager step from every operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from core.worker.cells import Placement
from core.worker.protocol import CellFailed
from core.worker.torch.device import Device

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
    return [leaf for leaf in tree_leaves(list(values) if _is_stream(values) else values) if _is_tensor(leaf)]


def _is_stream(values: Any) -> bool:
    return hasattr(values, "__next__")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
