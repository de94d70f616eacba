"""Native PyTorch's step: the plain loop of its tutorials, around a module that may be compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from core.spec import Target
from core.worker.feeds import Feed
from core.worker.pytorch.learning import Labels
from core.worker.step import check_loss, check_outputs
from core.worker.torch.device import Device
from core.worker.torch.step import TorchStep

HALF = {"mixed_float16": torch.float16, "mixed_bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Network:
    """A module on its device.

    For training it has ``loss`` and ``optimizer``, and a ``scaler`` if 16-bit gradients could underflow; ``labels``
    makes labels, ``dtype`` is the samples' type.
    """

    module: torch.nn.Module
    dtype: Any
    labels: Labels | None = None
    loss: Callable[[Any, Any], Any] | None = None
    optimizer: Any = None
    scaler: Any = None

    @property
    def trains(self) -> bool:
        return self.optimizer is not None


class PyTorchStep(TorchStep):
    """``zero_grad``, forward, loss, backward, ``step``; or the forward pass alone, without gradients.

    In 16 bits ``autocast`` covers the forward pass and the loss. The whole module is compiled, and nothing else.
    """

    def __init__(self, network: Network, target: Target, feed: Feed, device: Device) -> None:
        super().__init__(feed)
        self.network, self.device, self._half = network, device, HALF.get(target.precision)
        self.is_compiled = target.execution in ("compile", "reduce-overhead")
        self.replays = target.execution == "reduce-overhead"
        self._model: Any = network.module
        if self.is_compiled:
            mode = "reduce-overhead" if self.replays else None
            self._model = torch.compile(network.module, fullgraph=True, dynamic=False, mode=mode)
        self.call = self._infer if not network.trains else self._train_in_half if self._half else self._train

    def mode(self) -> AbstractContextManager[Any]:
        self.network.module.train(self.network.trains)
        if self.network.trains:
            return contextlib.nullcontext()
        inside = contextlib.ExitStack()
        inside.enter_context(torch.no_grad())
        if self._half:
            inside.enter_context(torch.autocast(self.device.kind, self._half))
        return inside

    def _infer(self) -> Any:
        (x,) = next(self._iterator)
        return self._model(x)

    def _train(self) -> Any:
        x, y = next(self._iterator)
        network = self.network
        network.optimizer.zero_grad()
        loss = network.loss(self._model(x), y)  # type: ignore[misc]
        loss.backward()
        network.optimizer.step()
        return loss

    def _train_in_half(self) -> Any:
        x, y = next(self._iterator)
        network = self.network
        network.optimizer.zero_grad()
        with torch.autocast(self.device.kind, self._half):
            loss = network.loss(self._model(x), y)  # type: ignore[misc]
        if network.scaler is None:
            loss.backward()
            network.optimizer.step()
        else:
            network.scaler.scale(loss).backward()
            network.scaler.step(network.optimizer)
            network.scaler.update()
        return loss

    def check_finite(self) -> None:
        if self.network.trains:
            check_loss(float(self.last.detach()))
        else:
            check_outputs(bool(torch.isfinite(self.last).all()))
