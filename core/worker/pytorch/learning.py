"""Loss, labels and optimizer of a module: the user's own, or defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from core.families import Network
from core.families.code import CodeError, in_words
from core.worker.feeds import SEED
from core.worker.pytorch.code import LIKE_OUTPUTS, OF_CLASSES, PROBED, Parts, samples

LEARNING_RATE = 1e-4
"""Does not affect a step's cost; small, so that a network stays in one state however long it is measured."""

Labels = Callable[[int], np.ndarray]
"""Returns labels for that many samples."""


def own_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of the last axis against class numbers, or of one output against 0 or 1."""
    if outputs.shape[-1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs, labels)
    return functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def find_labels(parts: Parts, network: Network, entry: str) -> Labels:
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
