"""Cards that a framework sees here, in its own order: NVML lists all of them, CUDA those that its variables select.

CUDA lists the fastest card first unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the order of NVML; workers are given that if
the user chose nothing (:func:`core.worker.process.worker_environment`). CUDA_VISIBLE_DEVICES (CUDA's programming guide;
PyTorch reads it in the same way) holds indices or UUIDs, which may be shortened as long as they name one card; the
first entry that names none hides itself and all that follow, and a repeated one hides all. Under MIG a process sees one
slice (NVIDIA's MIG guide), the first of them, and no whole card beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
