"""Access to NVIDIA's management library (NVML), and the cards that a framework sees; silent if there is no driver.

NVML lists all cards, CUDA those that its variables select. CUDA lists the fastest card first unless CUDA_DEVICE_ORDER
is PCI_BUS_ID, the order of NVML; workers are given that if the user chose nothing
(:func:`core.worker.process.worker_environment`). CUDA_VISIBLE_DEVICES (CUDA's programming guide; PyTorch reads it in
the same way) holds indices or UUIDs, which may be shortened as long as they name one card; the first entry that names
none hides itself and all that follow, and a repeated one hides all. Under MIG a process sees one slice (NVIDIA's MIG
guide), the first of them, and no whole card beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.base.evidence import Gpu
from core.workload.spec import Target

VISIBLE, ORDER, BY_BUS = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
BY_UUID = ("GPU-", "MIG-")


@dataclass(frozen=True)
class Listed:
    """A card as NVML lists it. With ``mig`` only its ``slices``, given by their UUIDs, can be used."""

    uuid: str
    mig: bool = False
    slices: tuple[str, ...] = ()


class Place(NamedTuple):
    """A card by NVML's index, or one of its slices."""

    card: int
    slice: int | None = None


@dataclass(frozen=True)
class Visible:
    """Visible cards: ``places[n]`` is a framework's ``gpu:n``, unless the order is not ``known``.

    ``broken_by``: the entry of CUDA_VISIBLE_DEVICES that hides itself and all that follow, else None.
    """

    places: tuple[Place, ...]
    known: bool = True
    broken_by: str | None = None


def visible_cards(cards: Sequence[Listed], env: Mapping[str, str]) -> Visible:
    """Return the cards visible to a framework that is started with these variables."""
    wanted = env.get(VISIBLE)
    entries = [str(index) for index in range(len(cards))] if wanted is None else wanted.split(",")
    named = wanted is not None and entries[0].startswith(BY_UUID)
    places: list[Place] = []
    broken_by = None
    for entry in entries:
        place = _by_uuid(entry.strip(), cards) if named else _by_index(entry, cards)
        if place is None:
            broken_by = entry.strip()
            break
        if place in places:
            places, broken_by = [], entry.strip()
            break
        places.append(place)
    places = [place for place in places if place.slice is not None or not cards[place.card].mig]
    first = next((place for place in places if place.slice is not None), None)
    by_bus = (env.get(ORDER) or BY_BUS) == BY_BUS
    return Visible((first,) if first is not None else tuple(places), by_bus or named or len(cards) < 2, broken_by)


def _by_index(entry: str, cards: Sequence[Listed]) -> Place | None:
    number = re.match(r"\s*\+?(\d{1,4})", entry)  # anything after the digits is ignored
    index = int(number[1]) if number else -1
    return Place(index, 0 if cards[index].slices else None) if 0 <= index < len(cards) else None


def _by_uuid(entry: str, cards: Sequence[Listed]) -> Place | None:
    """Return the one card or slice whose UUID begins so; a card with slices stands for its first."""
    if not entry.startswith(BY_UUID) or entry in BY_UUID:
        return None
    named = [Place(i, 0 if card.slices else None) for i, card in enumerate(cards) if card.uuid.startswith(entry)]
    named += [
        Place(i, j) for i, card in enumerate(cards) for j, uuid in enumerate(card.slices) if uuid.startswith(entry)
    ]
    return named[0] if len(named) == 1 else None


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

    All GPUs in it are those that a worker's framework sees, in its order, except
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
        handles = self.measured((target,)) if self.visible.known else ()
        return handles if len(handles) == len(target.gpus) else ()

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
        instances = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", card, slot) for slot in slots)
        return [instance for instance in instances if instance is not None]

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
        memories = [nvml.ask("nvmlDeviceGetMemoryInfo", handle.own) for handle in nvml.handles_of(target)]
        return min(int(memory.free) for memory in memories) if memories and None not in memories else None
