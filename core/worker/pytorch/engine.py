"""Native PyTorch on one target: modules of the user's own code. Loaded by a worker process only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from core.base.frameworks import Compiled
from core.networks import families
from core.networks.families.code import Code, CodeError, in_words
from core.worker.cells import Cell, CellEngine, Placement
from core.worker.feeds import SEED, Feed, make_arrays, pool_size
from core.worker.protocol import Describe, Described, Hello, Ready
from core.worker.pytorch.code import (
    LIKE_OUTPUTS,
    OF_CLASSES,
    PROBED,
    Parts,
    call_parts,
    describe_module,
    samples,
    try_module,
)
from core.worker.step import check_loss, check_outputs
from core.worker.torch import compiled
from core.worker.torch.device import Device, TorchStep, set_up
from core.worker.torch.placement import handed_over, loaded, resident, verify, watch_step
from core.worker.torch.trace import trace_steps
from core.workload.spec import AS_ASKED, ONLY_WAY, Pipeline, Target, Workload

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
        example_labels = parts.labels
        if example_labels.is_floating_point():
            return _ones(tuple(example_labels.shape[1:]))
        return _classes(max(2, int(example_labels.max()) + 1), tuple(example_labels.shape[1:]))
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


def start(hello: Hello) -> tuple[PyTorchEngine, Ready]:
    """Set up the target's device. Raises CellFailed if there is no such device."""
    device, ready = set_up(hello)
    return PyTorchEngine(hello, device), ready


class PyTorchEngine(CellEngine[PyTorchStep]):
    """Cells of one target. Cells of the same workload share a module and its optimizer."""

    exhausted = (torch.OutOfMemoryError,)

    def __init__(self, hello: Hello, device: Device) -> None:
        super().__init__(hello, device.allocator)
        self._device = device

    def describe(self, request: Describe) -> Described:
        self.check_code(request.entry)
        return describe_module(request)

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        key = workload, target
        if key not in self._models:  # the code decides which labels its loss takes
            self._models[key] = self.build_model(workload, target)
        network: Network = self._models[key]
        if pipeline.kind == "resident":
            return resident(_arrays(network, workload, batch), self._device)
        arrays = _arrays(network, workload, batch * pool_size(workload, batch))
        if pipeline.kind == "host":
            return handed_over(arrays, batch, self._device)
        return loaded(arrays, batch, self._device, pipeline)

    def build_model(self, workload: Workload, target: Target) -> Network:
        code = workload.network
        if not isinstance(code, Code):
            raise CodeError(f"framework=pytorch runs no {code.name}; name a function that returns a module (--model).")
        parts = call_parts(code.entry, code.folder)
        _check_described(code, parts)
        if not workload.training:
            return Network(parts.module.to(self._device.name), parts.example.dtype)
        labels = find_labels(parts, code, code.entry)
        module = parts.module.to(self._device.name)
        scales = target.precision == "mixed_float16"
        return Network(
            module,
            parts.example.dtype,
            labels,
            parts.loss.to(self._device.name) if isinstance(parts.loss, torch.nn.Module) else parts.loss or own_loss,
            make_optimizer(parts, workload.optimizer, code.entry),
            torch.amp.GradScaler(self._device.kind) if scales else None,
        )

    def make_step(self, model: Network, workload: Workload, target: Target, feed: Feed) -> PyTorchStep:  # noqa: ARG002
        return PyTorchStep(model, target, feed, self._device)

    def first_call(self, step: PyTorchStep) -> tuple[float, Placement]:
        compiled.begin()
        with compiled.compiling():
            first_ms = step.run(1)
        placed = None if step.is_compiled else watch_step(lambda: step.run(1))
        module = step.network.module
        held = {
            "Parameters of the module": [*module.parameters(), *module.buffers()],
            "Batches": next(step.iterator),
            "The step's outputs": step.last,
        }
        return first_ms, verify(self._device, held, placed, "torch.compile")

    def compiled_as(self, step: PyTorchStep, target: Target) -> tuple[Compiled, str]:
        why = ONLY_WAY.format(framework=self.title) if target.execution == "keras" else AS_ASKED
        if not step.is_compiled:
            return "eager", why
        step.settle(step.network.module, replayed=step.replays)
        return ("reduce-overhead" if step.replays else "compile"), why

    def renew(self, cell: Cell[PyTorchStep]) -> None:
        """Reset the module's and the optimizer's values to new ones of the code; keep what is compiled."""
        network, fresh = cell.step.network, self.build_model(cell.workload, cell.target)
        network.module.load_state_dict(fresh.module.state_dict())
        if network.trains:
            network.optimizer.load_state_dict(fresh.optimizer.state_dict())

    def trace_fields(self, cell: Cell[PyTorchStep], steps: int) -> Mapping[str, Any]:
        return trace_steps(cell.step, steps, self._device)


def _arrays(network: Network, workload: Workload, samples: int) -> tuple[np.ndarray, ...]:
    x = make_arrays(workload, samples)[0]
    x = torch.from_numpy(x).to(network.dtype).numpy()
    return (x,) if network.labels is None else (x, network.labels(samples))


def _check_described(code: Code, parts: Parts) -> None:
    """Raise CodeError if the code builds a different module now."""
    count, described = sum(p.numel() for p in parts.module.parameters()), code.parameters
    shape = tuple(parts.example.shape[1:]), try_module(parts, code.entry)
    if shape != (code.sample_shape, (*code.positions, code.outputs)) or count != described:
        raise CodeError(
            f"{code.entry} builds another module now ({count:,} parameters) than it was described with "
            f"({described:,}); begin again with --model {code.entry}."
        )
