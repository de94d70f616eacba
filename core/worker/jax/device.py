"""The one device of a JAX worker: chosen, limited to the target's threads, and asked for its memory."""

from __future__ import annotations

import os
from typing import Any

import jax

from core.machine.cores import bind
from core.machine.environment import quota_cores
from core.numbers import counted
from core.spec import Target
from core.worker.protocol import CellFailed

PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
MAX_DETAIL = 200


def choose(target: Target) -> Any:
    """The target's ``jax.Device``, on which everything lies from here on. Raises CellFailed where there is none.

    JAX takes as many threads as it may use cores, so that a number of threads is one of cores to which the process is
    bound. Its own pool heeds NPROC, but the thread that calls it computes beside it.
    """
    kind, _, number = target.device.partition(":")
    if (threads := target.threads or quota_cores()) is not None:
        os.environ["NPROC"] = str(threads)
        if not bind(threads) and kind == "cpu":
            jax.config.update("jax_cpu_enable_async_dispatch", False)  # at least does not run ahead beside its pool
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax.config.update("jax_platforms", PLATFORMS[kind])
    index = int(number or 0)
    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:  # an assertion fails where no plugin for the platform is installed
        detail = " ".join(str(error).split())[:MAX_DETAIL]
        said = f" It said: {detail}" if detail else ""
        raise CellFailed("error", f"There is no {target.device}: JAX found no {kind.upper()}.{said}") from None
    if index >= len(devices):
        seen = f"{counted(len(devices), kind.upper())}, counted from {kind}:0"
        raise CellFailed("error", f"There is no {target.device}: JAX found {seen}.")
    jax.config.update("jax_default_device", devices[index])
    return devices[index]


def short_name(device: Any) -> str:
    """``GPU:0``, as a worker calls its one device whatever its number."""
    return f"{str(device.platform).upper()}:0"


class DeviceAllocator:
    """JAX's own count of a device's memory (:class:`core.worker.memory.Allocator`). Its peak never falls."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def held(self) -> int:
        return int(self._stats()["bytes_in_use"])

    def peak(self) -> int:
        return int(self._stats()["peak_bytes_in_use"])

    def reset(self) -> bool:
        return False

    def _stats(self) -> dict[str, int]:
        stats = self._device.memory_stats()
        if not stats:
            raise CellFailed("error", f"JAX does not tell how much memory {self._device} holds.")
        return dict(stats)
