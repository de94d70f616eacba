"""Energy of the CPU packages from Linux's powercap folder: Intel's RAPL counters, and AMD's.

Package zones only: core and DRAM zones are parts of them or separate, ``psys`` is the whole platform, and
``intel-rapl-mmio`` counts the same package a second time.
"""

from __future__ import annotations

import re
from pathlib import Path

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
