"""NVIDIA's management library (NVML): opened, asked, closed. Silent where there is no driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.evidence import Gpu

SLOWED_BY = ("SwPowerCap", "HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")
"""NVML's reasons for a lower clock that mean heat or power."""


class Nvml:
    """The library while it is open, from construction until ``close``."""

    def __init__(self) -> None:
        self._library: Any = None
        self._handles: list[Any] = []
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # not installed, no driver, or a driver that does not answer
            return
        self._library = pynvml
        handles = (_ask(pynvml.nvmlDeviceGetHandleByIndex, i) for i in range(_ask(pynvml.nvmlDeviceGetCount) or 0))
        self._handles = [handle for handle in handles if handle is not None]

    def close(self) -> None:
        """Shut the library down; no GPU is seen afterwards. Safe to call twice."""
        if self._library is not None:
            _ask(self._library.nvmlShutdown)
        self._library, self._handles = None, []

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, in the driver's order."""
        return tuple(_gpu(self._library, handle) for handle in self._handles)

    def computing_pids(self) -> set[int]:
        """Process ids that compute on a GPU."""
        running = (_ask(self._library.nvmlDeviceGetComputeRunningProcesses, handle) for handle in self._handles)
        return {process.pid for processes in running for process in processes or ()}

    def throttled(self) -> bool | None:
        """Whether heat or power holds a GPU's clock down; None without a GPU that answers."""
        read = [_ask(self._library.nvmlDeviceGetCurrentClocksThrottleReasons, handle) for handle in self._handles]
        answers = [reasons for reasons in read if reasons is not None]
        slow = [getattr(self._library, f"nvmlClocksThrottleReason{name}") for name in SLOWED_BY if answers]
        return any(reasons & bit for reasons in answers for bit in slow) if answers else None


def _gpu(library: Any, handle: Any) -> Gpu:
    memory = _ask(library.nvmlDeviceGetMemoryInfo, handle)
    capability = _ask(library.nvmlDeviceGetCudaComputeCapability, handle)
    limit_mw = _ask(library.nvmlDeviceGetPowerManagementLimit, handle)
    return Gpu(
        name=_text(_ask(library.nvmlDeviceGetName, handle)) or "NVIDIA GPU",
        memory_bytes=memory and memory.total,
        driver=_text(_ask(library.nvmlSystemGetDriverVersion)),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        power_limit_w=limit_mw / 1000 if limit_mw else None,
    )


def _ask(read: Callable[..., Any], *about: Any) -> Any:
    """What ``read`` returns, or None: not every GPU answers every question."""
    try:
        return read(*about)
    except Exception:
        return None


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
