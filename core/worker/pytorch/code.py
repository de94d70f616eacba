"""Evaluation of user code for native PyTorch: shapes, labels, counts. Loaded by a worker only.

The function returns a module, or ``(module, loss, optimizer)``, either with an example batch as a further item. The
example may also be the module's ``example_input_array``, as PyTorch Lightning calls it; a plain chain that begins with
a linear layer needs none. The optimizer is one made with the module's parameters, or a function that makes one of them.

Parameters are those of each called layer, activations its outputs, and FLOPs those that PyTorch's FlopCounterMode
counts in the forward pass (a multiply-add counts 2), with the backward pass at twice the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from core.networks.families import LayerCount
from core.networks.families.code import MAX_NAME, CodeError, call_entry, check_entry, in_words, refuse_modules_of
from core.worker.protocol import CellFailed, Describe, Described

PROBED = 2  # samples in a trial run of a module
PIXEL_VALUES, FLAGS = 256, 2
SAYS_HOW = (
    "give an example batch, as the module's example_input_array or as the last item that the function returns, such "
    "as torch.zeros(1, 784)"
)
CHAIN = (
    nn.Sequential, nn.Linear, nn.Flatten, nn.Identity, nn.Dropout, nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm,
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.Hardswish, nn.Softplus, nn.Softmax, nn.LogSoftmax,
)  # fmt: skip
"""A network of these layers only, nested or not, has the input shape of its first linear layer."""
OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)
LIKE_OUTPUTS = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss)


@dataclass(frozen=True)
class Parts:
    """Return value of the user's function.

    ``loss`` and ``optimizer`` are None if the code leaves them to us; ``example`` is a batch of any size, ``labels``
    the labels that came with it.
    """

    module: nn.Module
    loss: Any
    optimizer: Any
    example: torch.Tensor
    labels: torch.Tensor | None = None


def call_parts(entry: str, folder: str) -> Parts:
    """Call the user's function. Raises CodeError if it returns something else."""
    torch.manual_seed(0)
    returned = call_entry(entry, folder)
    module, *rest = returned if isinstance(returned, tuple | list) else (returned,)
    if not isinstance(module, nn.Module) or any(kind.__module__.startswith("keras.") for kind in type(module).__mro__):
        kind = f"{type(module).__module__}.{type(module).__name__}" if module is not None else "nothing"
        raise CodeError(
            f"{entry} returned {kind}; for framework=pytorch it must return an nn.Module, or (module, loss, optimizer)."
        )
    example = None
    if len(rest) in (1, 3):
        *rest, example = rest
    if len(rest) not in (0, 2):
        raise CodeError(f"{entry} returned {len(rest) + 1} items; return a module, or (module, loss, optimizer).")
    loss, optimizer = rest or (None, None)
    _check_learning(entry, loss, optimizer)
    floats = {str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()}
    if others := sorted(floats - {"float32"}):
        raise CodeError(
            f"Parameters that {entry} makes are in {', '.join(others)}; leave them in float32, since the target's "
            "precision says what is computed in 16 bits."
        )
    x, y = _example(entry, module, example)
    return Parts(module, loss, optimizer, x, y)


def _check_learning(entry: str, loss: Any, optimizer: Any) -> None:
    if loss is not None and not callable(loss):
        raise CodeError(f"The loss that {entry} returned cannot be called with outputs and labels.")
    if not (optimizer is None or callable(optimizer) or isinstance(optimizer, torch.optim.Optimizer)):
        raise CodeError(f"The optimizer that {entry} returned is none of torch.optim, nor makes one of parameters.")


def _example(entry: str, module: nn.Module, example: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    example = getattr(module, "example_input_array", None) if example is None else example
    labels = None
    if isinstance(example, tuple | list) and len(example) == 2:
        example, labels = example
    if isinstance(example, tuple | list) and len(example) == 1:
        (example,) = example
    if example is None:
        example = _of_chain(module)
    if example is None:
        raise CodeError(f"The module of {entry} does not say what it takes; {SAYS_HOW}.")
    tensors = [each for each in (example, labels) if each is not None]
    if not all(isinstance(each, torch.Tensor) and each.dim() for each in tensors) or example.dim() < 2:
        raise CodeError(f"The example of {entry} must be one tensor whose first axis is the batch, or one and labels.")
    return example, labels


def _of_chain(module: nn.Module) -> torch.Tensor | None:
    """Return a batch for a plain chain of layers; None if its shape cannot be known."""
    parts = list(module.modules())
    if not all(isinstance(part, CHAIN) or next(part.children(), None) is not None for part in parts):
        return None
    first = next((part for part in parts if isinstance(part, nn.Linear)), None)
    return None if first is None else torch.zeros(1, first.in_features)


def describe_module(request: Describe) -> Described:
    """Call the user's function and describe what it returns. Raises CellFailed."""
    try:
        entry = check_entry(request.entry)
        parts = call_parts(entry, request.folder)
        if request.apart_from is not None:
            refuse_modules_of(request.apart_from, request.folder)
        outputs = try_module(parts, entry)
        return Described(
            name=type(parts.module).__name__[:MAX_NAME],
            input_shape=tuple(parts.example.shape[1:]),
            vocabulary=_vocabulary(parts),
            classes=outputs[-1],
            label_shape=outputs[:-1],
            layers=tuple(vars(layer) for layer in _counts(parts)),
        )
    except CodeError as error:
        raise CellFailed("error", str(error)) from error


def samples(example: torch.Tensor, count: int) -> torch.Tensor:
    """Return ``count`` samples, all equal to the example's first."""
    return example[:1].expand(count, *example.shape[1:]).contiguous()


def try_module(parts: Parts, entry: str) -> tuple[int, ...]:
    """Return the shape of one sample's output. Raises CodeError if the module cannot be run or scored."""
    x = samples(parts.example, PROBED)
    shown = ", ".join(map(str, x.shape[1:]))
    parts.module.eval()
    try:
        with torch.no_grad():
            out = parts.module(x)
    except Exception as error:
        raise CodeError(
            f"The module of {entry} cannot run a batch of {PROBED} samples of shape ({shown}): {in_words(error)}"
        ) from error
    if not isinstance(out, torch.Tensor):
        raise CodeError(f"The module of {entry} must return one tensor; it returned {type(out).__name__}.")
    if out.dim() < 2 or out.shape[0] != PROBED:
        sizes = ", ".join(map(str, out.shape))
        raise CodeError(f"The module of {entry} turned {PROBED} samples into ({sizes}); the first axis must stay.")
    return tuple(out.shape[1:])


def _vocabulary(parts: Parts) -> int | None:
    """Return the number of valid integer samples, None if samples are real numbers; as for a Keras model."""
    if parts.example.is_floating_point():
        return None
    sizes = [part.num_embeddings for part in parts.module.modules() if isinstance(part, nn.Embedding)]
    return min(sizes) if sizes else PIXEL_VALUES if parts.example.dtype == torch.uint8 else FLAGS


def _counts(parts: Parts) -> tuple[LayerCount, ...]:
    """Return one count per layer call, a shared layer's parameters once; then the FLOPs of the whole module."""
    seen: set[int] = set()
    counts: list[LayerCount] = []

    def note(name: str) -> Callable[..., None]:
        def called(layer: nn.Module, _: Any, out: Any) -> None:
            fresh = [p for p in layer.parameters(recurse=False) if id(p) not in seen]
            seen.update(id(p) for p in fresh)
            size = out.numel() // PROBED if isinstance(out, torch.Tensor) else 0
            counts.append(LayerCount(name, sum(p.numel() for p in fresh), 0, 0, 0, size))

        return called

    leaves = [(name, part) for name, part in parts.module.named_modules() if next(part.children(), None) is None]
    hooks = [part.register_forward_hook(note((name or type(part).__name__)[:MAX_NAME])) for name, part in leaves]
    parts.module.train()  # in inference PyTorch fuses layers whose FLOPs the counter does not know
    try:
        with FlopCounterMode(display=False) as counter:
            parts.module(samples(parts.example, PROBED))
    finally:
        for hook in hooks:
            hook.remove()
    if rest := sum(p.numel() for p in parts.module.parameters() if id(p) not in seen):
        counts.append(LayerCount("parameters of the module", rest, 0, 0, 0, 0))
    flops = math.ceil(counter.get_total_flops() / PROBED)
    counts.append(LayerCount("whole module (PyTorch's FLOP counter)", 0, flops, flops, flops, 0))
    return tuple(counts)
