"""Readings of a measurement's GPUs and CPU packages. Nothing is opened before it is needed."""

from __future__ import annotations

import time
from pathlib import Path

from core.evidence import CardUse
from core.machine.card import Card
from core.machine.card_sampler import CardSampler
from core.machine.nvml import Nvml
from core.machine.powercap import ROOT, Powercap
from core.spec import Target


class Meter:
    """Meter of one measurement, to be closed afterwards."""

    def __init__(self, powercap: Path = ROOT) -> None:
        self._nvml: Nvml | None = None
        self._sampler = CardSampler(self._open)
        self._root = powercap
        self._powercap: Powercap | None = None

    def begin(self, device: str) -> None:
        """Start sampling a block on a device such as ``gpu:0``, or ``gpu:0+1``, whose GPUs are sampled as one."""
        self._sampler.begin(device)

    def end(self) -> CardUse | None:
        """Return the card's activity since :meth:`begin`; None if it is not visible or the block was too short for a
        sample.
        """
        return self._sampler.end()

    def refused(self, device: str) -> str:
        """Return a sentence on why a device's energy is unknown and what to do; empty if it can be read."""
        if not device.startswith("gpu:"):
            return self._packages().refused
        card = self._sampler.card(device)
        if card is None:
            return (
                f"What {device} did is not known: NVIDIA's management library does not show which card that is; check "
                "that “nvidia-smi” lists it and that nvidia-ml-py is installed."
            )
        if card.divided:
            return (
                f"The energy of {device} is not known: it is a MIG slice, and NVML counts the whole GPU; switch MIG "
                "off to measure energy."
            )
        return ""

    def package_j(self) -> float | None:
        """Return the joules of the CPU packages since an arbitrary start; None if they cannot be read."""
        return self._packages().joules()

    def pause(self, seconds: float) -> None:
        """Wait with everything idle."""
        time.sleep(seconds)

    def close(self) -> None:
        self._sampler.close()
        if self._nvml is not None:
            self._nvml.close()

    def _packages(self) -> Powercap:
        if self._powercap is None:
            self._powercap = Powercap(self._root)
        return self._powercap

    def _open(self, device: str) -> Card | None:
        if self._nvml is None:
            self._nvml = Nvml()
        handles = self._nvml.handles_of(Target(device=device))
        return Card(self._nvml.library, *handles) if handles else None
