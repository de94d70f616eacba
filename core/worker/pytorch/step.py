"""Native PyTorch's step: the plain loop of its tutorials, around a module that may be compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from core.networks import families
from core.networks.families.code import CodeError, in_words
from core.worker.feeds import SEED, Feed
from core.worker.pytorch.code import LIKE_OUTPUTS, OF_CLASSES, PROBED, Parts, samples
from core.worker.step import check_loss, check_outputs
from core.worker.torch.device import Device, TorchStep
from core.workload.spec import Target

LEARNING_RATE = 1e-4
"""Does not affect a step's cost; small, so that a network stays in one state however long it is measured."""

Labels = Callable[[int], np.ndarray]
"""Returns labels for that many samples."""


def own_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of the last axis against class numbers, or of one output against 0 or 1."""
    if outputs.shape[-1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs, labels)
    return functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def find_labels(parts: Parts, network: families.Network, entry: str) -> Labels:
    """Return seeded random labels that the loss accepts.

    They are class numbers, or zeros and ones in the outputs' shape; integer example labels set the range of values.
    Raises CodeError if the loss accepts none of them.
    """
    shape = (*network.label_shape, network.classes)
    if parts.loss is None:
        return _ones(shape) if network.classes == 1 else _classes(network.classes, shape[:-1])
    if parts.labels is not None:
        given = parts.labels
        if given.is_floating_point():
            return _ones(tuple(given.shape[1:]))
        return _classes(max(2, int(given.max()) + 1), tuple(given.shape[1:]))
    # PyTorch's own losses have the classes on the axis after the batch
    classes = _classes(shape[0], shape[1:])
    if isinstance(parts.loss, LIKE_OUTPUTS):
        candidates = [_ones(shape)]
    elif isinstance(parts.loss, OF_CLASSES):
        candidates = [classes]
    else:
        candidates = [classes, _ones(shape)]
    outputs, why = _outputs(parts), ""
    for labels in candidates:
        try:
            loss = parts.loss(outputs, torch.from_numpy(labels(PROBED)))
        except Exception as error:
            why = why or in_words(error)
            continue
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            return labels
        why = why or "it does not give one number."
    raise CodeError(f"The loss of {entry} takes no labels of ours; return (x, labels) as the example: {why}")


def _outputs(parts: Parts) -> torch.Tensor:
    parts.module.eval()
    with torch.no_grad():
        outputs: torch.Tensor = parts.module(samples(parts.example, PROBED))
    return outputs


def _classes(count: int, shape: tuple[int, ...]) -> Labels:
    return lambda samples: np.random.default_rng(SEED + 1).integers(0, count, (samples, *shape))


def _ones(shape: tuple[int, ...]) -> Labels:
    return lambda samples: np.random.default_rng(SEED + 1).integers(0, 2, (samples, *shape)).astype(np.float32)


def make_optimizer(parts: Parts, name: str, entry: str) -> Any:
    """Return the code's own optimizer, or the plan's. Raises CodeError if there is nothing to train."""
    parameters = [parameter for parameter in parts.module.parameters() if parameter.requires_grad]
    if not parameters:
        raise CodeError(f"The module of {entry} has no parameters to train; choose --mode infer.")
    if isinstance(parts.optimizer, torch.optim.Optimizer):
        return parts.optimizer
    if parts.optimizer is not None:
        made = parts.optimizer(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise CodeError(f"The optimizer that {entry} returned made {type(made).__name__}, none of torch.optim.")
        return made
    if name == "adam":
        return torch.optim.Adam(parameters, LEARNING_RATE)
    return torch.optim.SGD(parameters, LEARNING_RATE, momentum=0.9 if name == "momentum" else 0.0)


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
