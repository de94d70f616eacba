"""Modules replaced on import, and versions of packages that are not installed.

Light: every process with the site on its path loads it.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from simulated.made_up.states import CPU_NAME, folder, present

FRAMEWORK, NVML = "core.worker.tensorflow.engine", "pynvml"
PACKAGE_IDLE_W = 8.0  # of the made-up CPU
MADE_UP_VERSIONS = {
    "tensorflow": "2.21.0+made.up", "keras": "3.15.1+made.up", "nvidia-cudnn-cu12": "9.28.0+made.up",
    "nvidia-cuda-runtime-cu12": "12.9.79+made.up", "nvidia-cublas-cu12": "12.9.1+made.up",
}  # fmt: skip


class MadeUpPackage(Distribution):
    def __init__(self, name: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {MADE_UP_VERSIONS[name]}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).with_name("nothing") / path


class Replaced:
    """An import finder that replaces the framework always, and the rest if there is a state."""

    def find_spec(self, name: str, path: Any = None, _: Any = None) -> ModuleSpec | None:
        if name == FRAMEWORK:
            return importlib.util.spec_from_file_location(name, Path(__file__).with_name("engine.py"))
        change = CHANGES.get(name) if present() else None
        spec = PathFinder.find_spec(name, path) if change else None
        if change is None or spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def and_change(module: Any) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = and_change  # type: ignore[method-assign]
        return spec

    def find_distributions(self, context: Any) -> Iterator[Distribution]:
        if present() is not None:
            wanted = (
                n for n in MADE_UP_VERSIONS if context.name is None or n == context.name.replace("_", "-").lower()
            )
            yield from map(MadeUpPackage, wanted)


def _put_cards(real: Any) -> None:
    from simulated.made_up.cards import make_nvml  # imports the real module, loaded by now

    sys.modules[NVML] = cast(ModuleType, make_nvml(real))


def _name_cpu(module: Any) -> None:
    module.cpu_name = lambda: CPU_NAME


def _count_energy(module: Any) -> None:
    """Replace the CPU's energy counter, a folder of files, by one that follows the engines on the CPU."""
    from simulated.made_up.activity import CPU, told

    zone = folder() / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True, exist_ok=True)
    (zone / "name").write_text("package-0")

    def number(path: Path) -> int | None:
        now_s = time.monotonic()
        used_j = sum(activity.energy_at(now_s) for activity in told(folder()) if activity.card == CPU)
        return round(1e6 * (PACKAGE_IDLE_W * now_s + used_j)) if path.name == "energy_uj" else 2**50

    module._number, module.ROOT = number, zone.parent


CHANGES: dict[str, Callable[[Any], None]] = {
    NVML: _put_cards, "core.machine.environment": _name_cpu, "core.machine.meter": _count_energy,
}  # fmt: skip
"""Function that changes a module once it is loaded."""
