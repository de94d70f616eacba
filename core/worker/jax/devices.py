"""The devices of a JAX worker: selected, limited to the target's threads, named, with their memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import keras

from core.base.frameworks import device_kind
from core.base.numbers import counted
from core.machine.cores import Place
from core.machine.environment import quota_cores, usable_cores
from core.worker.feeds import each
from core.worker.protocol import CellFailed
from core.workload.names import all_of
from core.workload.spec import Target

PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
MAX_DETAIL = 200
THREADS_A_LOGICAL_CPU = 4
"""Threads of XLA's pool per logical device.

Each device's all-reduce holds one until the last device has arrived: with too few the devices deadlock. The number was
found by experiment (docs/tables/scaling.md).
"""


@dataclass(frozen=True)
class Devices:
    """The ``jax.Device`` objects that run the steps, in the target's order.

    ``distribution`` is Keras's, which shards a batch over several devices and copies variables to each; None for one.
    """

    chosen: tuple[Any, ...]
    distribution: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the target's order: ``GPU:0`` is its first GPU, whatever the GPU's number."""
        return tuple(f"{str(device.platform).upper()}:{place}" for place, device in enumerate(self.chosen))

    @property
    def words(self) -> str:
        """The names as text, such as ``GPU:0 and GPU:1``."""
        return all_of(self.names)

    @property
    def kind(self) -> str:
        """The devices' model names, if the platform tells; empty for a CPU."""
        if self.chosen[0].platform == "cpu":
            return ""
        return all_of(list(dict.fromkeys(str(device.device_kind) for device in self.chosen)))

    @property
    def profiled(self) -> tuple[str, ...]:
        """The devices' names in a trace: GPUs by their place in the machine, all logical devices of the CPU as one."""
        if self.chosen[0].platform == "cpu":
            return ("CPU",)
        return tuple(f"{device.platform.upper()}:{device.local_hardware_id}" for device in self.chosen)

    def name_of(self, device: Any) -> str:
        """Return the device's name here, or JAX's own if it is not the target's."""
        return self.names[self.chosen.index(device)] if device in self.chosen else str(device)

    def allocator(self) -> DeviceAllocator | None:
        return None if self.chosen[0].platform == "cpu" else DeviceAllocator(self.chosen)

    def put(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """Put a batch on the device, or an equal share on each of several."""
        if self.distribution is None:
            return tuple(jax.device_put(batch, self.chosen[0]))
        layouts = each(lambda part: self.distribution.get_data_layout(part.shape).backend_layout, batch)
        return tuple(jax.device_put(batch, layouts))


def start_devices(target: Target) -> Devices:
    """Set up the target's devices and start each. Raises CellFailed if there is no such device.

    Everything created from here on lies on them. Several are set in Keras for the whole process, before any network is
    created.
    """
    kind = device_kind(target.device)
    _set_threads(target)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax.config.update("jax_platforms", PLATFORMS[kind])
    if target.on_cpu and target.replicas > 1:
        jax.config.update("jax_num_cpu_devices", target.replicas)
    devices = _found(target, kind)
    jax.config.update("jax_default_device", devices[0])
    for device in devices:  # the runtime starts with the first operation
        jax.block_until_ready(jax.device_put(0.0, device) + 1.0)
    if len(devices) == 1:
        return Devices(devices)
    # its auto_shard_dataset splits data sets among processes, of which this is the only one
    distribution = keras.distribution.DataParallel(devices=list(devices))
    keras.distribution.set_distribution(distribution)
    return Devices(devices, distribution)


def _set_threads(target: Target) -> None:
    """Limit JAX to the target's threads by binding the process to as many cores, since JAX uses all it may.

    Its own pool obeys NPROC, but the calling thread computes beside it. Several logical devices of a CPU need a larger
    pool: a thread that waits in it for another device computes nothing.
    """
    threads = target.threads or quota_cores()
    if target.on_cpu and target.replicas > 1:
        os.environ["NPROC"] = str((threads or usable_cores() or 1) + THREADS_A_LOGICAL_CPU * target.replicas)
    elif threads is not None:
        os.environ["NPROC"] = str(threads)
    if threads is not None and not Place(threads).take() and target.on_cpu and target.replicas == 1:
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # at least keeps the caller from running ahead of it


def _found(target: Target, kind: str) -> tuple[Any, ...]:
    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:  # an assertion fails where no plugin for the platform is installed
        detail = " ".join(str(error).split())[:MAX_DETAIL]
        message = f" It said: {detail}" if detail else ""
        raise CellFailed("error", f"There is no {target.devices[0]}: JAX found no {kind.upper()}.{message}") from None
    indices = [place if target.on_cpu else int(device.partition(":")[2]) for place, device in enumerate(target.devices)]
    if missing := [index for index in indices if index >= len(devices)]:
        seen = f"{counted(len(devices), kind.upper())}, counted from {kind}:0"
        raise CellFailed("error", f"There is no {kind}:{missing[0]}: JAX found {seen}.")
    return tuple(devices[index] for index in indices)


class DeviceAllocator:
    """JAX's own count of a device's memory (:class:`core.worker.memory.Allocator`); the fullest of several.

    Its peak never falls.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = tuple(devices)

    def held(self) -> int:
        return self._most("bytes_in_use")

    def peak(self) -> int:
        return self._most("peak_bytes_in_use")

    def reset(self) -> bool:
        return False

    def _most(self, what: str) -> int:
        return max(int(self._stats(device)[what]) for device in self._devices)

    def _stats(self, device: Any) -> dict[str, int]:
        stats = device.memory_stats()
        if not stats:
            raise CellFailed("error", f"JAX does not tell how much memory {device} holds.")
        return dict(stats)
