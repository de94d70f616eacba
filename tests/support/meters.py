"""A machine whose targets draw known power, and a meter that reads it as NVML and powercap would."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.base.evidence import CardUse, ClockReason
from core.machine.meter import CardSample, summarise
from simulated.simulation import Machine

EVERY_S = 0.05
Power = Callable[[int], float]


@dataclass
class PoweredMachine(Machine):
    """A CPU as first target and a GPU as second; watts of the running device by batch, and of the idle ones.

    While the GPU runs, the CPU package draws ``feeding_w``; while the CPU runs, the GPU is idle.
    """

    cpu_w: Power = lambda _: 60.0
    gpu_w: Power = lambda _: 150.0
    idle_w: tuple[float, float] = (20.0, 30.0)
    feeding_w: float = 35.0
    ran: list[tuple[float, float, int, int]] = field(default_factory=list)
    _above: list[tuple[float, float, float]] = field(default_factory=list)  # begin, and joules above idle until the end

    def launch(self, targets: Any, deadline_s: float, *_: object) -> Any:
        workers = super().launch(targets, deadline_s)
        for index, worker in enumerate(workers):
            worker.block = self._logged(worker.block, index)
        return workers

    def _logged(self, block: Any, target: int) -> Any:
        def logged(request: Any, deadline_s: float) -> Any:
            begin_s = self.clock.now_s()
            done = block(request, deadline_s)
            self._note(begin_s, self.clock.now_s(), target, request.batch)
            return done

        return logged

    def _note(self, begin_s: float, end_s: float, target: int, batch: int) -> None:
        above_w = [self._watts(device, target, batch) - self.idle_w[device] for device in (0, 1)]
        self.ran.append((begin_s, end_s, target, batch))
        before_j = self._above[-1][1:] if self._above else (0.0, 0.0)
        self._above.append((begin_s, *(j + w * (end_s - begin_s) for j, w in zip(before_j, above_w, strict=True))))

    def joules(self, device: int, until_s: float) -> float:
        """Return the energy of the CPU package (0) or the GPU (1) since the beginning."""
        taken_j, begun = self.idle_w[device] * until_s, bisect.bisect_left(self._above, (until_s,))
        if begun == 0:
            return taken_j
        begin_s, end_s, target, batch = self.ran[begun - 1]
        last_j = (min(end_s, until_s) - begin_s) * (self._watts(device, target, batch) - self.idle_w[device])
        return taken_j + last_j + (self._above[begun - 2][1 + device] if begun > 1 else 0.0)

    def _watts(self, device: int, target: int, batch: int) -> float:
        if target == 0:
            return self.cpu_w(batch) if device == 0 else self.idle_w[1]
        return self.gpu_w(batch) if device == 1 else self.feeding_w


@dataclass
class SimulatedMeter:
    """A simulated meter; ``tick_s`` is the energy counter's interval, None without one. ``refusals`` by device."""

    machine: PoweredMachine
    tick_s: float | None = 0.1
    refusals: dict[str, str] = field(default_factory=dict)
    utilisation: Power = lambda _: 50.0
    reasons: tuple[ClockReason, ...] = ()
    closed: int = 0
    begun: list[str] = field(default_factory=list)
    _begin_s: float | None = None

    def begin(self, device: str) -> None:
        assert device.startswith("gpu:")
        assert self._begin_s is None, "one block at a time"
        self.begun.append(device)
        self._begin_s = self.machine.clock.now_s()

    def end(self) -> CardUse | None:
        assert self._begin_s is not None
        begin_s, end_s, self._begin_s = self._begin_s, self.machine.clock.now_s(), None
        times = [begin_s + 0.01 + i * EVERY_S for i in range(math.ceil((end_s - begin_s - 0.01) / EVERY_S))]
        samples = [self._sample(at_s) for at_s in times if at_s < end_s]
        return summarise(samples, end_s - begin_s, 0.1 * len(samples), 0.5) if samples else None

    def _sample(self, at_s: float) -> CardSample:
        run = next((r for r in reversed(self.machine.ran) if r[0] <= at_s < r[1]), None)
        busy = run is not None and run[2] == 1
        values = {"sm_mhz": 1590.0 if busy else 300.0, "celsius": 61.0, "used_mb": 900.0}
        values["util_pct"] = self.utilisation(run[3]) if run is not None and busy else 0.0
        values["power_w"] = self.machine.joules(1, at_s + 1e-3) * 1e3 - self.machine.joules(1, at_s) * 1e3
        if self.tick_s is not None:
            values["energy_j"] = self.machine.joules(1, math.floor(at_s / self.tick_s) * self.tick_s)
        return CardSample(at_s, values, self.reasons if busy else (), idle=not busy)

    def refused(self, device: str) -> str:
        return self.refusals.get(device, "")

    def package_j(self) -> float | None:
        return None if "cpu" in self.refusals else self.machine.joules(0, self.machine.clock.now_s())

    def pause(self, seconds: float) -> None:
        self.machine.clock.advance(seconds)

    def close(self) -> None:
        self.closed += 1
