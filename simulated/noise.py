"""Disturbances of simulated targets: offsets, drifts, stalls, cores that are slow for seconds, neighbours.

All of it has mean zero in log step time or, on cores, the same mean for targets on the same cores. So the truth of two
noiseless curves is what a sweep of targets with equal places should find. The figures of :data:`QUIET_MACHINE` and
:data:`BUSY_MACHINE` reproduce two equal targets on two cores of a virtual machine (docs/tables/simulated_machines.md;
tests/test_simulated_noise.py checks them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from core.analysis.statistics import Array
from core.base.evidence import Interference, Start
from core.workload.spec import Target

SLICE_S = 0.003  # the kernel's time slice for each of two runnable threads; the one that woke up goes first
SAMPLE_EVERY_S = 0.1  # as core.machine.interference.MIN_INTERVAL_S
FRESH_PROCESS = 0.034  # ``process``: two fresh ones differed by 4.5 to 5.2 %, forks of one process hardly
HIGHEST_BACKGROUND_PCT = 8.0  # of a core, by programs that are always there


@dataclass(frozen=True)
class Neighbour:
    """Another program that computes and pauses in turn; both lengths are log-uniform.

    It takes ``cores`` while it is on, idle ones first, and a ``share`` of a target's core, where 1 is as much time as
    the target's, drawn anew each time it goes on.
    """

    on_s: tuple[float, float] = (0.2, 10.0)
    off_s: tuple[float, float] = (0.2, 10.0)
    cores: int = 1
    share: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class CoreModel:
    """The cores that targets run on. Deviations are of log step time.

    A target with fewer threads than cores is on the last cores if ``bound``, like all others with as many threads; else
    it changes its core now and then. A target with as many threads as cores waits for the slowest of them.
    """

    count: int = 2
    bound: bool = True
    drift_s: tuple[float, ...] = (0.004, 0.016, 0.064, 0.25)  # correlation times
    drift: tuple[float, ...] = (0.045, 0.060, 0.055, 0.040)
    short_s: float = 0.003  # only this part of a longer step drifts: its time besides arithmetic
    slow: float = 0.12  # mean slow-down of a core that is slow for seconds, exponentially distributed
    slow_s: float = 2.0  # mean duration of a slow phase
    normal_s: float = 10.0  # mean duration between slow phases
    together: float = 0.05  # deviation of the placement of several threads
    together_s: float = 4.0  # its correlation time
    usual: tuple[int, ...] = (0,)  # default cores of unbound targets, in turn of their start
    away_per_s: float = 3.0  # probability per s of a block to run off the usual core
    move: float = 0.15  # share of its blocks before which the kernel rechooses its core
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class NoiseModel:
    """Standard deviations of log step time, and how often and how long a block stalls."""

    tail: float = 0.02  # Student t with 3 degrees of freedom, per block
    common_drift: float = 0.10  # common to both targets
    own_drift: float = 0.015  # of one target alone
    drift_s: float = 4.0  # correlation time of the drifts
    process: float = 0.02  # per process of one target, all its batches
    cell: float = 0.01  # per process of one target and batch
    stall_share: float = 0.02
    stall_factor: float = 4.0
    preparation: float = 0.0  # per preparation of a batch, Student t with 3 degrees of freedom
    odd_share: float = 0.0  # share of preparations that deviate by far more
    odd: tuple[float, float] = (0.05, 0.20)  # by this much, log-uniform, either way
    cores: CoreModel | None = None
    asleep: float = 0.0  # steps of several threads are so much longer while idle cores wake

    @property
    def start(self) -> Start | None:
        """Start of the workers, judged by their offsets; None for a machine without cores."""
        if self.cores is None:
            return None
        return "fresh" if self.process >= FRESH_PROCESS else "forked"

    def prepared(self, rng: np.random.Generator) -> float:
        """Return the offset of a newly prepared cell, beyond that of its process and batch."""
        offset = self.preparation * float(rng.standard_t(3)) if self.preparation else 0.0
        if self.odd_share and rng.random() < self.odd_share:
            offset += float(rng.choice((-1.0, 1.0))) * _log_uniform(rng, self.odd)
        return offset


QUIET = NoiseModel(0.002, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0)
QUIET_MACHINE = NoiseModel(
    tail=0.008, common_drift=0.0, own_drift=0.0, process=0.003, cell=0.004, stall_share=0.003, stall_factor=2.0,
    preparation=0.005, odd_share=0.003, cores=CoreModel(), asleep=0.3,
)  # fmt: skip
"""A quiet machine of two cores whose host has other guests; workers are forks of one process."""
BURSTS = (Neighbour((0.2, 10.0), (0.2, 10.0)), Neighbour((0.2, 6.0), (0.2, 6.0)))
BUSY_MACHINE = replace(QUIET_MACHINE, cores=CoreModel(neighbours=BURSTS))
"""The same beside two programs that compute in bursts."""
HOG = Neighbour(on_s=(1e9, 1e9), off_s=(1e-3, 1e-3), share=(0.9, 1.0))
HOG_MACHINE = replace(QUIET_MACHINE, cores=CoreModel(neighbours=(HOG,)))
"""The same with one of its cores permanently occupied, which for targets of two threads is another machine."""


def fresh(model: NoiseModel) -> NoiseModel:
    """Return the model with workers that are fresh processes."""
    return replace(model, process=FRESH_PROCESS)


def unbound(model: NoiseModel, **changes: Any) -> NoiseModel:
    """Return the model with targets that the kernel places freely."""
    assert model.cores is not None
    return replace(model, cores=replace(model.cores, bound=False, **changes))


def _log_uniform(rng: np.random.Generator, ends: tuple[float, float]) -> float:
    return float(math.exp(rng.uniform(math.log(ends[0]), math.log(ends[1])))) if ends[0] < ends[1] else ends[0]


class Drift:
    """Ornstein–Uhlenbeck process sampled at rising times, stationary with the given deviation."""

    def __init__(self, rng: np.random.Generator, deviation: float, time_s: float) -> None:
        self._rng, self._deviation, self._tau_s = rng, deviation, time_s
        self._value, self._at_s = rng.normal(0, deviation) if deviation else 0.0, 0.0

    def at(self, now_s: float) -> float:
        if not self._deviation:
            return 0.0
        decay = math.exp(-(now_s - self._at_s) / self._tau_s)
        self._value = decay * self._value + self._rng.normal(0, self._deviation * math.sqrt(1 - decay**2))
        self._at_s = now_s
        return float(self._value)


@cache
def _averaging(taus_s: tuple[float, ...], deviations: tuple[float, ...], length_s: float) -> tuple[Array, ...]:
    """Return how start and chance contribute to mean and end of Ornstein–Uhlenbeck processes over a time."""
    deviation, r = np.array(deviations), length_s / np.array(taus_s)
    e = np.exp(-r)
    of_mean = np.sqrt(np.maximum(2 * r - 3 + 4 * e - e**2, 1e-18)) / r
    both = (1 - e) ** 2 / r / of_mean
    rest = np.sqrt(np.maximum(1 - e**2 - both**2, 0.0))
    return (1 - e) / r, deviation * of_mean, e, deviation * both, deviation * rest


class _Core:
    """One core: drifts of all correlation times, averaged over a block's length, and slow phases."""

    def __init__(self, model: CoreModel, rng: np.random.Generator) -> None:
        self._model, self._rng = model, rng
        self._taus_s, self._deviations = np.array(model.drift_s), np.array(model.drift)
        self._drifts = rng.normal(0, self._deviations)
        self._at_s = self._until_s = 0.0
        self._slow = rng.random() > model.slow_s / (model.slow_s + model.normal_s)
        self._by = 0.0

    def slowness(self, at_s: float, length_s: float, step_s: float) -> float:
        """Return the mean log slowness of steps from ``at_s`` on; ``at_s`` must rise from call to call."""
        normal = self._rng.standard_normal((3, len(self._drifts)))
        decay = np.exp(-max(0.0, at_s - self._at_s) / self._taus_s)
        begin = decay * self._drifts + self._deviations * np.sqrt(1 - decay**2) * normal[0]
        start, chance, stay, both, rest = _averaging(self._model.drift_s, self._model.drift, length_s)
        mean = start * begin + chance * normal[1]
        self._drifts, self._at_s = stay * begin + both * normal[1] + rest * normal[2], at_s + length_s
        return float(mean.sum()) * min(1.0, self._model.short_s / step_s) + self._slow_by(at_s)

    def _slow_by(self, at_s: float) -> float:
        while self._until_s <= at_s:
            self._slow = not self._slow
            self._by = float(self._rng.exponential(self._model.slow)) if self._slow else 0.0
            mean_s = self._model.slow_s if self._slow else self._model.normal_s
            self._until_s += float(self._rng.exponential(mean_s))
        return self._by


class _Busy:
    """A neighbour: its current cores, until when, and its time on so far."""

    def __init__(self, model: Neighbour, rng: np.random.Generator) -> None:
        self.model, self._rng = model, rng
        self.cores: tuple[int, ...] = ()
        self.share = self._before_s = self._since_s = 0.0
        self.until_s = rng.uniform(0.0, min(1.0, model.off_s[1]))

    def switch(self, at_s: float, weights: Array) -> None:
        """Let it go on and off until ``at_s``; ``weights``: how readily the kernel gives it each core."""
        while self.until_s <= at_s:
            self._before_s += len(self.cores) * (self.until_s - self._since_s)
            self._since_s = self.until_s
            is_on = not self.cores
            taken = min(self.model.cores, len(weights))
            places = self._rng.choice(len(weights), taken, replace=False, p=weights / weights.sum()) if is_on else ()
            self.cores, self.share = tuple(map(int, places)), self._rng.uniform(*self.model.share)
            self.until_s += _log_uniform(self._rng, self.model.on_s if is_on else self.model.off_s)

    def give_way(self, free: Sequence[int], taken: Sequence[int]) -> None:
        """Move from taken to free cores, as far as there are any."""
        places = [place for place in self.cores if place not in taken] + list(free)
        if len(places) >= len(self.cores):
            self.cores = tuple(places[: len(self.cores)])

    def core_s(self, at_s: float) -> float:
        """Return its core seconds until ``at_s``, before it switches again, as if it shared none."""
        return self._before_s + len(self.cores) * (at_s - self._since_s)


class Cores:
    """All cores of a machine, its neighbours, and the time that targets waited for a core."""

    MOVED = 0.02  # probability that a neighbour moves from a target's core to an idle one before the next block
    READILY = 0.15  # weight of a core with a target or another neighbour, relative to an idle one

    def __init__(self, model: CoreModel, seed: int) -> None:
        self._model, self._rng = model, np.random.default_rng([seed, 1])
        self._cores = [_Core(model, self._rng) for _ in range(model.count)]
        self.neighbours = [_Busy(neighbour, self._rng) for neighbour in model.neighbours]
        self._together: dict[int, Drift] = {}
        self._last: tuple[int, ...] = ()
        self._at: dict[int, int] = {}
        self.waited_s = 0.0

    def block(self, process: int, target: Target, at_s: float, steps: int, step_s: float) -> tuple[float, float]:
        """Return the log slowness of a target's block, and its further waiting time for cores, in seconds."""
        self.look(at_s)
        length_s = steps * step_s
        self._last = places = self._places(process, target, length_s)
        slowness = max(self._cores[place].slowness(at_s, length_s, step_s) for place in places)
        if len(places) > 1:
            model = self._model
            drift = self._together.setdefault(len(places), Drift(self._rng, model.together, model.together_s))
            slowness += drift.at(at_s)
        waits_s = [self._wait_s(place, length_s) for place in places]
        self.waited_s += sum(waits_s)
        return slowness, max(waits_s)

    def look(self, at_s: float) -> None:
        """Let the neighbours go on until ``at_s``."""
        for busy in self.neighbours:
            if busy.until_s <= at_s:
                weights = np.ones(self._model.count)
                for other in self.neighbours:
                    weights[list(other.cores if other is not busy else self._last)] *= self.READILY
                busy.switch(at_s, weights)
            elif set(busy.cores) & set(self._last) and self._rng.random() < self.MOVED:
                free = set(range(self._model.count)).difference(
                    self._last, *(neighbour.cores for neighbour in self.neighbours)
                )
                busy.give_way(sorted(free), self._last)

    def threads(self, target: Target) -> int:
        """Return how many cores a target keeps busy."""
        return min(self._model.count, (target.threads or self._model.count) if target.on_cpu else 1)

    def _places(self, process: int, target: Target, length_s: float) -> tuple[int, ...]:
        count, threads = self._model.count, self.threads(target)
        if threads == count:
            return tuple(range(count))
        if self._model.bound and target.on_cpu:
            return tuple(range(count - threads, count))
        if process not in self._at or self._rng.random() < self._model.move:
            away = min(0.5, self._model.away_per_s * length_s)
            weights = np.full(count, away / max(1, count - 1))
            weights[self._model.usual[process % len(self._model.usual)]] = 1 - away
            for busy in self.neighbours:
                weights[list(busy.cores)] *= self.READILY
            self._at[process] = int(self._rng.choice(count, p=weights / weights.sum()))
        return tuple((self._at[process] + i) % count for i in range(threads))

    def _wait_s(self, place: int, length_s: float) -> float:
        """Return the time in slices that others have the core, on average their share after the first slice."""
        share = sum(busy.share for busy in self.neighbours if place in busy.cores)
        return SLICE_S * float(self._rng.poisson(share * max(0.0, length_s / SLICE_S - 1))) if share else 0.0


class SimulatedInterference:
    """The view of core.machine.interference on this machine's neighbours."""

    def __init__(self, cores: Cores, now_s: Callable[[], float], seed: int = 0) -> None:
        self._cores, self._now_s, self._rng = cores, now_s, np.random.default_rng([seed, 2])
        self._before = self._window = (0.0, 0.0, 0.0)
        self._last = Interference()

    def watch(self, targets: Sequence[Target]) -> None: ...

    def close(self) -> None: ...

    def reset(self, *_: object) -> None:
        self._before = self._seen()

    def _seen(self) -> tuple[float, float, float]:
        now_s = self._now_s()
        self._cores.look(now_s)
        return now_s, sum(busy.core_s(now_s) for busy in self._cores.neighbours), self._cores.waited_s

    def sample(self, *_: object) -> Interference:
        before, self._before = self._before, self._seen()
        passed = zip(self._window, self._before, before, strict=True)
        elapsed_s, others_s, waited_s = (window + now - then for window, now, then in passed)
        self._window = elapsed_s, others_s, waited_s
        if elapsed_s < SAMPLE_EVERY_S:
            return self._last
        self._window = (0.0, 0.0, 0.0)
        background_pct = float(self._rng.uniform(0, HIGHEST_BACKGROUND_PCT))
        facts = {
            "other_cpu_pct": round(background_pct + 100 * max(0.0, others_s - waited_s / 2) / elapsed_s, 1),
            "steal_pct": 0.0,
            "wait_pct": round(100 * waited_s / elapsed_s + 0.1 * background_pct, 1),
        }
        self._last = Interference(**{name: fact for name, fact in facts.items() if name in Interference.model_fields})
        return self._last
