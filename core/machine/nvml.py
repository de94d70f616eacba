"""Access to NVIDIA's management library (NVML). Silent if there is no driver."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.base.evidence import Gpu
from core.machine.visible import Listed, Visible, visible_cards
from core.workload.spec import Target

NO_DRIVER = (9, 12)
"""NVML's errors without a driver: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIBRARY_NOT_FOUND."""


@dataclass(frozen=True)
class Handle:
    """NVML's handles of a GPU: of the whole ``card``, and of the ``own`` part that a framework gets.

    Only the card reports clocks, power and heat; ``own`` has memory and processes. They differ under MIG.
    """

    card: Any
    own: Any

    @property
    def mig(self) -> bool:
        return self.own is not self.card


class Nvml:
    """The library, open from construction until ``close``.

    All GPUs in it are those that a worker's framework sees, in its order (:mod:`core.machine.visible`), except
    ``listed``, which has all. ``error``: the reason an installed driver did not answer, else None.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.library: Any = None
        self.error: str | None = None
        self.listed: tuple[Listed, ...] = ()
        self.visible = Visible(())
        self.handles: tuple[Handle, ...] = ()
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
        except Exception as error:
            self.error = None if getattr(error, "value", None) in NO_DRIVER else str(error)
            return
        self.library = pynvml
        self._find(os.environ if env is None else env)

    def close(self) -> None:
        """Shut the library down; no GPU is visible afterwards. Safe to call twice."""
        if self.library is not None:
            self.ask("nvmlShutdown")
        self.library, self.handles = None, ()

    def ask(self, name: str, *about: Any) -> Any:
        """Call NVML's function of that name; return None on failure, as not every GPU supports every query."""
        try:
            return getattr(self.library, name)(*about)
        except Exception:
            return None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs that a framework sees, in its order, or in NVML's if that is unknown."""
        return tuple(self._gpu(handle) for handle in self.handles)

    def handles_of(self, target: Target) -> tuple[Handle, ...]:
        """Return the handles of a target's GPUs; none for a CPU, a missing GPU or an unknown order."""
        found = self.measured((target,)) if self.visible.known else ()
        return found if len(found) == len(target.gpus) else ()

    def measured(self, targets: Iterable[Target]) -> tuple[Handle, ...]:
        """Return the handles of the GPUs among these targets; all handles if the order is unknown."""
        wanted = {index for target in targets for index in target.gpus}
        if wanted and not self.visible.known:
            return self.handles
        return tuple(handle for index, handle in enumerate(self.handles) if index in wanted)

    def computing_pids(self, handles: Iterable[Handle]) -> set[int]:
        """Return ids of processes that compute on these GPUs; in a container they are the host's."""
        running = (self.ask("nvmlDeviceGetComputeRunningProcesses", handle.own) for handle in handles)
        return {process.pid for processes in running for process in processes or ()}

    def _find(self, env: Mapping[str, str]) -> None:
        indices = range(self.ask("nvmlDeviceGetCount") or 0)
        cards = [card for i in indices if (card := self.ask("nvmlDeviceGetHandleByIndex", i)) is not None]
        mig = [bool((self.ask("nvmlDeviceGetMigMode", card) or (0,))[0]) for card in cards]
        slices = [self._slices(card) if on else [] for card, on in zip(cards, mig, strict=True)]
        self.listed = tuple(
            Listed(self._uuid(card), on, tuple(map(self._uuid, own)))
            for card, on, own in zip(cards, mig, slices, strict=True)
        )
        self.visible = visible_cards(self.listed, env)
        self.handles = tuple(
            Handle(cards[card], cards[card] if part is None else slices[card][part])
            for card, part in self.visible.places
        )

    def _slices(self, card: Any) -> list[Any]:
        slots = range(self.ask("nvmlDeviceGetMaxMigDeviceCount", card) or 0)
        found = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", card, slot) for slot in slots)
        return [one for one in found if one is not None]

    def _uuid(self, handle: Any) -> str:
        return _text(self.ask("nvmlDeviceGetUUID", handle)) or ""

    def _gpu(self, handle: Handle) -> Gpu:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle.own)
        capability = self.ask("nvmlDeviceGetCudaComputeCapability", handle.card)
        limit_mw = self.ask("nvmlDeviceGetPowerManagementLimit", handle.card)
        name = self.ask("nvmlDeviceGetName", handle.own) or self.ask("nvmlDeviceGetName", handle.card)
        uuid = self._uuid(handle.own)
        return Gpu(
            name=_text(name) or "NVIDIA GPU",
            memory_bytes=memory and memory.total,
            driver=_text(self.ask("nvmlSystemGetDriverVersion")),
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            power_limit_w=limit_mw / 1000 if limit_mw else None,
            uuid_hash=hashlib.sha256(uuid.encode()).hexdigest()[:12] if uuid else None,
            mig=handle.mig,
        )


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def free_gpu_bytes(target: Target) -> int | None:
    """Return the free bytes of a target's GPU (or slice), of several GPUs the least; None if unknown to the driver."""
    with contextlib.closing(Nvml()) as nvml:
        asked = [nvml.ask("nvmlDeviceGetMemoryInfo", handle.own) for handle in nvml.handles_of(target)]
        return min(int(memory.free) for memory in asked) if asked and None not in asked else None
