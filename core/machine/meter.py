"""Readings of a measurement's GPUs, through NVML, and CPU packages. Nothing is opened before it is needed.

A query to a GPU that fails once is not repeated. Periods according to NVIDIA's NVML reference: utilisation covers a
sample period of 1/6 s to 1 s before the query, power from Ampere on (except GA100) is the mean of the last second, and
PCIe throughput is counted over 20 ms while the caller waits. The energy counter moves every 20 to 100 ms.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from core.base.evidence import WHILE_BUSY, CardUse, ClockReason, Spread
from core.machine.nvml import Handle, Nvml
from core.workload.spec import Target

IDLE = "GpuIdle"
REASONS: dict[str, ClockReason] = {
    "SwPowerCap": "power_cap",
    "ApplicationsClocksSetting": "applications_clocks",
    "SyncBoost": "sync_boost",
    "DisplayClockSetting": "display_clocks",
    "HwSlowdown": "hw_slowdown",
    "SwThermalSlowdown": "sw_thermal",
    "HwThermalSlowdown": "hw_thermal",
    "HwPowerBrakeSlowdown": "power_brake",
}
"""NVML's names, mapped to ours."""
PCIE = ("tx_mb_s", "rx_mb_s")
OF_ALL_SLICES = ("util_pct", "power_w", "energy_j", *PCIE)
"""Quantities that NVML reports only for a whole GPU, even if MIG divides it: they include the work of other slices."""
ENERGY_S = 2.0
"""Shortest block with an energy: the counter and the mean power reach too far beyond a shorter one."""
DIGITS = 4
"""Significant digits stored: a clock of 1,590 MHz needs them, and nothing is measured more precisely."""


@dataclass
class CardSample:
    """Answers at one moment, by field of :class:`CardUse`; ``energy_j`` counts from an arbitrary start.

    ``reasons`` is None if unknown; ``idle`` is True if the GPU reported itself idle.
    """

    at_s: float
    values: dict[str, float] = field(default_factory=dict)
    reasons: tuple[ClockReason, ...] | None = None
    idle: bool = False


Question = Callable[[], float]
TOGETHER: dict[str, Callable[[Sequence[float]], float]] = {
    "util_pct": fmean, "sm_mhz": fmean, "memory_mhz": fmean, "celsius": max,
    "power_w": sum, "used_mb": sum, "energy_j": sum, "tx_mb_s": sum, "rx_mb_s": sum,
}  # fmt: skip
"""Quantities to query, and how to combine the answers of several GPUs that work together."""


class Card:
    """The GPU of a target, or its several GPUs as one; ``library`` is pynvml, initialised."""

    def __init__(self, library: Any, *handles: Handle) -> None:
        self._library = library
        self.divided = any(handle.mig for handle in handles)
        each = [_questions(library, handle) for handle in handles]
        self._questions = {name: _as_one(joined, [own[name] for own in each]) for name, joined in TOGETHER.items()}

        def reasons(name: str) -> Callable[[], list[int]]:
            return lambda: [int(getattr(library, name)(handle.card)) for handle in handles]

        self._bits = [
            reasons("nvmlDeviceGetCurrentClocksEventReasons"),
            reasons("nvmlDeviceGetCurrentClocksThrottleReasons"),  # their name in drivers before 535
        ]
        for name in OF_ALL_SLICES if self.divided else ():
            del self._questions[name]

    def ask(self, names: Iterable[str]) -> dict[str, float]:
        """Return the answers to those of ``names`` that the card supports."""
        answers: dict[str, float] = {}
        for name in names:
            if (question := self._questions.get(name)) is None:
                continue
            try:
                answers[name] = float(question())
            except Exception:  # not supported here, or the GPU is lost; not asked again
                del self._questions[name]
        return answers

    def sample(self, at_s: float) -> CardSample:
        """Query everything but PCIe throughput, which takes 20 ms per direction."""
        sample = CardSample(at_s, self.ask([name for name in self._questions if name not in PCIE]))
        while self._bits:
            try:
                each = self._bits[0]()
            except Exception:
                del self._bits[0]
                continue
            sample.idle = all(bits & self._bit(IDLE) for bits in each)
            named = (self._bit(name) for name in REASONS)
            sample.reasons = tuple(
                ours for bit, ours in zip(named, REASONS.values(), strict=True) if any(bits & bit for bits in each)
            )
            break
        return sample

    def _bit(self, name: str) -> int:
        return int(getattr(self._library, f"nvmlClocksEventReason{name}", 0))


def _questions(library: Any, handle: Handle) -> dict[str, Question]:
    def ask(name: str, *about: Any) -> Question:
        return lambda: float(getattr(library, name)(handle.card, *about))

    def scaled(question: Question, by: float) -> Question:
        return lambda: question() * by

    return {
        "util_pct": lambda: float(library.nvmlDeviceGetUtilizationRates(handle.card).gpu),
        "sm_mhz": ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_SM),
        "memory_mhz": ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_MEM),
        "power_w": scaled(ask("nvmlDeviceGetPowerUsage"), 1e-3),
        "celsius": ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU),
        "used_mb": lambda: library.nvmlDeviceGetMemoryInfo(handle.own).used / 1e6,
        "energy_j": scaled(ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
        "tx_mb_s": scaled(ask("nvmlDeviceGetPcieThroughput", library.NVML_PCIE_UTIL_TX_BYTES), 1e-3),
        "rx_mb_s": scaled(ask("nvmlDeviceGetPcieThroughput", library.NVML_PCIE_UTIL_RX_BYTES), 1e-3),
    }


def _as_one(joined: Callable[[Sequence[float]], float], questions: Sequence[Question]) -> Question:
    return lambda: joined([question() for question in questions])


def summarise(samples: Sequence[CardSample], length_s: float, cpu_ms: float, ask_ms: float) -> CardUse:
    """Summarise at least one sample of a block or window that lasted ``length_s``."""
    busy = [sample for sample in samples if not sample.idle]
    counted: dict[ClockReason, int] = {}
    for name in (name for sample in busy for name in sample.reasons or ()):
        counted[name] = counted.get(name, 0) + 1
    joules, source = energy(samples, length_s)
    names = {name for sample in samples for name in sample.values} - {"energy_j"}

    def seen(name: str) -> list[float]:
        return [s.values[name] for s in (busy if name in WHILE_BUSY else samples) if name in s.values]

    return CardUse(
        length_s=kept(length_s),
        samples=len(samples),
        busy=len(busy),
        energy_j=None if joules is None else kept(joules),
        energy_from=source,
        reasons=counted,
        cpu_ms=kept(cpu_ms),
        ask_ms=kept(ask_ms),
        **{name: _spread(values) for name in names if (values := seen(name))},
    )


def energy(
    samples: Sequence[CardSample], length_s: float
) -> tuple[float, Literal["counter", "power"]] | tuple[None, None]:
    """Return joules over ``length_s``, as mean power times length, and their source; None below two seconds.

    Mean power is taken between the first and the last change of the energy counter, so that its slow updates cost at
    most the time between two samples; without such a counter, it is the mean of the power samples.
    """
    if length_s < ENERGY_S:
        return None, None
    read = [(s.at_s, s.values["energy_j"]) for s in samples if "energy_j" in s.values]
    moved = [after for before, after in pairwise(read) if after[1] > before[1]]
    if len(moved) >= 2 and (between_s := moved[-1][0] - moved[0][0]) >= length_s / 2:
        return (moved[-1][1] - moved[0][1]) / between_s * length_s, "counter"
    power = [s.values["power_w"] for s in samples if "power_w" in s.values]
    return (sum(power) / len(power) * length_s, "power") if power else (None, None)


def kept(value: float) -> float:
    """Round to the digits worth storing."""
    return float(f"{value:.{DIGITS}g}")


def _spread(values: Sequence[float]) -> Spread:
    least, most = min(values), max(values)
    return kept(most) if least == most else (kept(sum(values) / len(values)), kept(least), kept(most))


EVERY_S = 0.2  # between two samples: one takes 3 to 27 ms of a core (measured: H200, docs/validation.md)
FIRST_S = 0.01  # after a block's start; the shortest lasts 20 ms, and the GPU is at work by then
ENDING_S = 2.0  # for which closing waits for an answer of the driver
Open = Callable[[str], Card | None]


class CardSampler:
    """Sampler of a device's card between :meth:`begin` and :meth:`end`, one at a time.

    ``open_card`` is called once per device, with ``gpu:0`` and so on. The thread starts with the first block on a card
    that answers, and ends with :meth:`close`.
    """

    def __init__(self, open_card: Open) -> None:
        self._open = open_card
        self._cards: dict[str, Card | None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._now: Card | None = None  # being sampled
        self._samples: list[CardSample] = []
        self._block = 0  # numbers blocks, so that a late answer is not attributed to the next one
        self._asking = False  # the thread waits for an answer of the driver
        self._begin_s = self._last_s = float("-inf")
        self._cpu_s = self._ask_s = 0.0

    def card(self, device: str) -> Card | None:
        """Return the card of a device; None if NVML does not list it."""
        if device not in self._cards:
            self._cards[device] = self._open(device)
        return self._cards[device]

    def begin(self, device: str) -> None:
        """Start sampling a block on a device."""
        card = self.card(device)
        if card is None or self._closed:
            return
        with self._changed:
            self._block += 1
            self._now, self._samples = card, []
            self._begin_s = time.perf_counter()
            self._cpu_s = self._ask_s = 0.0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="breakeven-cards", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> CardUse | None:
        """Stop sampling, after an answer that is due; return the block's summary, None if no sample was taken."""
        with self._changed:
            self._changed.wait_for(lambda: not self._asking, ENDING_S)
            samples, self._samples = self._samples, []
            sampled, self._now = self._now is not None, None
            if not sampled or not samples:
                return None
            length_s = time.perf_counter() - self._begin_s
            return summarise(samples, length_s, 1000 * self._cpu_s, 1000 * self._ask_s / len(samples))

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        with self._changed:
            self._closed, self._now = True, None
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(ENDING_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                card, block, nth = self._now, self._block, len(self._samples)
                due_s = self._last_s + EVERY_S if nth else self._begin_s + FIRST_S
                wait_s = due_s - time.perf_counter()
                if card is None or wait_s > 0:
                    self._changed.wait(None if card is None else wait_s)
                    continue
                self._last_s, self._asking = time.perf_counter(), True
            self._sample(card, block, nth)
            with self._changed:
                self._asking = False
                self._changed.notify_all()

    def _sample(self, card: Card, block: int, nth: int) -> None:
        """Take one sample; from a block's second one on with one direction of PCIe, which takes 20 ms."""
        cpu_s, begin_s = time.thread_time(), time.perf_counter()
        sample = card.sample(begin_s)
        self._keep(block, sample, cpu_s, begin_s)
        if nth:
            cpu_s, begin_s = time.thread_time(), time.perf_counter()
            throughput = card.ask((PCIE[nth % 2],))
            with self._changed:
                if block == self._block and self._now is not None:
                    sample.values |= throughput
                    self._cpu_s += time.thread_time() - cpu_s
                    self._ask_s += time.perf_counter() - begin_s

    def _keep(self, block: int, sample: CardSample, cpu_s: float, begin_s: float) -> None:
        with self._changed:
            if block == self._block and self._now is not None:
                self._samples.append(sample)
                self._cpu_s += time.thread_time() - cpu_s
                self._ask_s += time.perf_counter() - begin_s


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
        counters = {zone: value for zone, value in read.items() if value is not None}
        if not counters or len(counters) < len(read):
            return None
        before, self._last = self._last, counters
        for zone, value in counters.items():
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
