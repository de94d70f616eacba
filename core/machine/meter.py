"""Readings of a measurement's GPUs and CPU packages. Nothing is opened before it is needed."""

from __future__ import annotations

import re
import time
from pathlib import Path

from core.base.evidence import CardUse
from core.machine.card import Card, CardSampler
from core.machine.nvml import Nvml
from core.workload.spec import Target

ROOT = Path("/sys/class/powercap")
ABSENT = (
    "The CPU's energy is not known: this system shows no package energy counter (Linux has them under "
    "/sys/class/powercap for most Intel and AMD processors; virtual machines and most containers have none), so "
    "measure on the machine itself."
)
REFUSED = (
    "The CPU's energy is not known: only root may read its counter; “sudo chmod a+r "
    "/sys/class/powercap/intel-rapl:*/*_uj” allows it until the next restart."
)


class Powercap:
    """Reader of the package energy counters.

    ``refused`` is a sentence on why they cannot be read and what to do; empty if they can.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._packages = _packages(root)
        self._last: dict[Path, int] = {}
        self._joules = 0.0
        self.refused = ABSENT if not self._packages else ""
        if self._packages and self.joules() is None:
            self.refused = REFUSED

    def joules(self) -> float | None:
        """Return the joules of all packages since the first call; None if a counter cannot be read.

        A counter may wrap around once between two calls: at 200 W the smallest, of 65 kJ, does so in 5 minutes.
        """
        read = {zone: _number(zone / "energy_uj") for zone in self._packages}
        found = {zone: value for zone, value in read.items() if value is not None}
        if not found or len(found) < len(read):
            return None
        before, self._last = self._last, found
        for zone, value in found.items():
            more = value - before.get(zone, value)
            if more < 0:
                most = _number(zone / "max_energy_range_uj")
                if most is None:
                    return None
                more += most
            self._joules += more / 1e6
        return self._joules


def _packages(root: Path) -> list[Path]:
    try:
        zones = [zone for zone in root.iterdir() if re.fullmatch(r"intel-rapl:\d+", zone.name)]
        return sorted(zone for zone in zones if (zone / "name").read_text().startswith("package"))
    except OSError:
        return []


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


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
