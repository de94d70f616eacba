"""Native PyTorch on one target: modules of the user's own code. Loaded by a worker process only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from core.base.frameworks import Compiled
from core.networks.families.code import Code, CodeError
from core.worker.cells import Cell, CellEngine, Placement
from core.worker.feeds import Feed, make_arrays, pool_size
from core.worker.protocol import Describe, Described, Hello, Ready
from core.worker.pytorch.code import Parts, call_parts, describe_module, try_module
from core.worker.pytorch.step import Network, PyTorchStep, find_labels, make_optimizer, own_loss
from core.worker.torch import compiled
from core.worker.torch.device import Device, set_up
from core.worker.torch.placement import handed_over, loaded, resident, verify, watch_step
from core.worker.torch.trace import trace_steps
from core.workload.spec import AS_ASKED, ONLY_WAY, Pipeline, Target, Workload


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
