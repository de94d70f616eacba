"""The cards of a state as NVML shows them: they follow the engines' activity."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import psutil

from simulated.fake_nvml import FakeCard, FakeNvml
from simulated.made_up.activity import SLOW_CLOCK, Activity, told
from simulated.made_up.states import GIB, OTHER_PID, State, folder, present

IDLE_W, IDLE_CLOCK, CLOCK, MEMORY_CLOCK = 30.0, 300, 1_590, 5_000
FRESH_S = 0.02  # NVML's answers are updated in steps, too
THERMAL = 0x40  # nvmlClocksThrottleReasonHwThermalSlowdown
DRIVER_BYTES = 500 * 2**20


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-0000-0000-0000-000000000000"


def make_nvml(real: Any) -> FakeNvml:
    """Return the library with the cards of this process's state. ``real`` has its constants."""
    state = present()
    assert state is not None
    assert real.NVML_CLOCK_SM is not None
    cards = [
        FakeCard(name=name, uuid=uuid(index), bus=f"00000000:0{index + 1}:00.0", capability=state.capability)
        for index, name in enumerate(state.names)
    ]
    if state.mig:
        card = cards[0]
        slices = (FakeCard(name=f"{card.name} MIG 1g.5gb", uuid=f"MIG-{uuid(0)[4:]}", capability=card.capability,
                           memory=5 * GIB, memory_used=10 * 2**20),)  # fmt: skip
        cards = [replace(card, mig=slices)]
    return FakeNvml(cards, state.driver, state.cuda_driver, before=Following(state, cards))


class Following:
    """Updates the cards before every answer."""

    def __init__(self, state: State, cards: list[FakeCard]) -> None:
        self._state, self._cards, self._fresh_s = state, cards, float("-inf")

    def __call__(self, _name: str) -> None:
        now_s = time.monotonic()
        if now_s - self._fresh_s >= FRESH_S:
            self._fresh_s = now_s
            activities = told(folder())
            for index, card in enumerate(self._cards):
                self._follow(card, [activity for activity in activities if activity.card == index], now_s)

    def _follow(self, card: FakeCard, engines: list[Activity], now_s: float) -> None:
        busy = [engine for engine in engines if engine.busy]
        hot = self._state.hot and any(engine.hot for engine in busy)
        card.utilisation_pct = round(min(100.0, sum(engine.utilisation for engine in busy)))
        card.power_mw = round(1000 * (IDLE_W + sum(engine.extra_w for engine in busy)))
        card.energy_mj = round(1000 * (IDLE_W * now_s + sum(engine.energy_at(now_s) for engine in engines)))
        card.sm_mhz = round(CLOCK * (SLOW_CLOCK if hot else 1.0)) if busy else IDLE_CLOCK
        card.memory_mhz = MEMORY_CLOCK if busy else 400
        card.temperature_c = (91 if hot else 62) if busy else 38
        card.reasons = (THERMAL if hot else 0) if busy else 1  # idle
        card.pcie_rx_kb_s = card.pcie_tx_kb_s = sum(engine.link_kb_s for engine in busy)
        card.memory_used = (
            DRIVER_BYTES + sum(engine.memory_bytes for engine in engines) + (self._state.other_bytes or 0)
        )
        card.memory_used = min(card.memory_used, card.memory)
        ours = [engine.pid for engine in engines if psutil.pid_exists(engine.pid)]
        others = [int(pid) for pid in [os.environ.get(OTHER_PID)] if pid and self._state.other_bytes]
        card.pids = (*ours, *others)
