"""Fake of the package ``pynvml`` with made-up cards: put it into ``sys.modules["pynvml"]``.

Constants and struct names are those of the real package; every function missing here raises NVMLError_NotSupported, as
does one whose answer is None.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml as real


@dataclass
class FakeCard:
    """A card in NVML's order, which is that of the PCI bus. Units are NVML's: MHz, mW, °C, mJ, KB/s, bytes."""

    name: str = "NVIDIA T4"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    bus: str = "00000000:01:00.0"
    capability: tuple[int, int] = (7, 5)
    memory: int = 16 * 2**30
    memory_used: int = 500 * 2**20
    power_limit_mw: int | None = 70_000
    sm_mhz: int | None = 1_590
    memory_mhz: int | None = 5_000
    utilisation_pct: int | None = 0
    power_mw: int | None = 10_000
    temperature_c: int | None = 40
    reasons: int | None = 0
    energy_mj: int | None = 0
    pcie_tx_kb_s: int | None = 0
    pcie_rx_kb_s: int | None = 0
    pids: tuple[int, ...] = ()
    compute_mode: int | None = 0
    mig: tuple["FakeCard", ...] = ()
    """Slices; MIG is on if there are any."""
    lost: bool = False


@dataclass
class FakeNvml:
    """The fake library; ``before`` gets the name of every called function, and may change the cards or raise."""

    cards: list[FakeCard] = field(default_factory=lambda: [FakeCard()])
    driver: str = "570.86.15"
    cuda_driver: int = 12_080
    open: int = 0
    asked: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _name: None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(real, name)
        stand_in = _FUNCTIONS.get(name)
        if stand_in is None:
            value = getattr(real, name)
            return _not_supported if callable(value) else value

        def function(*arguments: Any) -> Any:
            self.asked.append(name)
            self.before(name)
            answer = stand_in(self, *arguments)
            if answer is None:
                _not_supported()
            return answer

        return function


def _not_supported(*_: Any) -> None:
    raise real.NVMLError(real.NVML_ERROR_NOT_SUPPORTED)


def _init(nvml: FakeNvml) -> bool:
    nvml.open += 1
    return True


def _shutdown(nvml: FakeNvml) -> bool:
    nvml.open -= 1
    return True


def _by(nvml: FakeNvml, key: Callable[[FakeCard], bool]) -> FakeCard:
    for card in nvml.cards:
        for one in (card, *card.mig):
            if key(one):
                if one.lost:
                    raise real.NVMLError(real.NVML_ERROR_GPU_IS_LOST)
                return one
    raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)


def _by_index(nvml: FakeNvml, index: int) -> FakeCard:
    return _by(nvml, lambda card: card is nvml.cards[index])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "nvmlInit": _init,
    "nvmlShutdown": _shutdown,
    "nvmlSystemGetDriverVersion": lambda nvml: nvml.driver,
    "nvmlSystemGetCudaDriverVersion": lambda nvml: nvml.cuda_driver,
    "nvmlDeviceGetCount": lambda nvml: len(nvml.cards),
    "nvmlDeviceGetHandleByIndex": _by_index,
    "nvmlDeviceGetHandleByUUID": lambda nvml, uuid: _by(nvml, lambda card: card.uuid == _text(uuid)),
    "nvmlDeviceGetHandleByPciBusId": lambda nvml, bus: _by(nvml, lambda card: card.bus == _text(bus)),
    "nvmlDeviceGetIndex": lambda nvml, card: nvml.cards.index(card),
    "nvmlDeviceGetName": lambda _, card: card.name,
    "nvmlDeviceGetUUID": lambda _, card: card.uuid,
    "nvmlDeviceGetPciInfo": lambda _, card: SimpleNamespace(busId=card.bus),
    "nvmlDeviceGetMemoryInfo": lambda _, card: SimpleNamespace(
        total=card.memory, used=card.memory_used, free=card.memory - card.memory_used
    ),
    "nvmlDeviceGetCudaComputeCapability": lambda _, card: card.capability,
    "nvmlDeviceGetPowerManagementLimit": lambda _, card: card.power_limit_mw,
    "nvmlDeviceGetUtilizationRates": lambda _, card: (
        None if card.utilisation_pct is None else SimpleNamespace(gpu=card.utilisation_pct, memory=0)
    ),
    "nvmlDeviceGetClockInfo": lambda _, card, kind: {
        real.NVML_CLOCK_SM: card.sm_mhz,
        real.NVML_CLOCK_MEM: card.memory_mhz,
    }.get(kind),
    "nvmlDeviceGetPowerUsage": lambda _, card: card.power_mw,
    "nvmlDeviceGetTemperature": lambda _, card, _kind: card.temperature_c,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _, card: card.reasons,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda _, card: card.reasons,
    "nvmlDeviceGetTotalEnergyConsumption": lambda _, card: card.energy_mj,
    "nvmlDeviceGetPcieThroughput": lambda _, card, counter: {
        real.NVML_PCIE_UTIL_TX_BYTES: card.pcie_tx_kb_s,
        real.NVML_PCIE_UTIL_RX_BYTES: card.pcie_rx_kb_s,
    }[counter],
    "nvmlDeviceGetComputeRunningProcesses": lambda _, card: [SimpleNamespace(pid=pid) for pid in card.pids],
    "nvmlDeviceGetComputeMode": lambda _, card: card.compute_mode,
    "nvmlDeviceGetMigMode": lambda _, card: (int(bool(card.mig)), int(bool(card.mig))),
    "nvmlDeviceGetMaxMigDeviceCount": lambda _, card: len(card.mig),
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, card, index: card.mig[index],
}
