"""What the GPUs of a measurement do and take, and what the CPU packages take. Nothing is opened before it is asked."""

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
    """Make one for a measurement and close it afterwards."""

    def __init__(self, powercap: Path = ROOT) -> None:
        self._nvml: Nvml | None = None
        self._sampler = CardSampler(self._open)
        self._root = powercap
        self._powercap: Powercap | None = None

    def begin(self, device: str) -> None:
        """A block begins on a device such as ``gpu:0``, or ``gpu:0+1``, whose GPUs are watched as one."""
        self._sampler.begin(device)

    def end(self) -> CardUse | None:
        """What that device's card did since; None where it cannot be seen or the block was too short for a sample."""
        return self._sampler.end()

    def refused(self, device: str) -> str:
        """Why no energy of a device can be known, as a sentence that ends with what to do; empty where it can."""
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
        """Joules that the CPU packages took since some moment; None where that cannot be read."""
        return self._packages().joules()

    def pause(self, seconds: float) -> None:
        """Let time pass with everything idle."""
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
