"""784-512-512-10 in native PyTorch, the ``--model`` of :mod:`benchmarks.frameworks`."""

from __future__ import annotations

from typing import Any


def make() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )  # fmt: skip
