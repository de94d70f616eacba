"""Noise: told from our own work, scanned for seldom, cheap."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from core.measure import noise
from core.measure.noise import CpuTimes, NoiseSampler


class System:
    """Counters that a test advances."""

    def __init__(self):
        self.now = CpuTimes(at_s=0.0, busy_s=100.0, total_s=1000.0, steal_s=5.0, own_s=1.0)

    def read(self):
        return self.now

    def advance(self, wall_s, busy_s, own_s=0.0, steal_s=0.0):
        n = self.now
        self.now = CpuTimes(
            n.at_s + wall_s, n.busy_s + busy_s, n.total_s + 2 * wall_s, n.steal_s + steal_s, n.own_s + own_s
        )


@pytest.fixture
def system():
    return System()


@pytest.fixture
def sampler(system):
    sampler = NoiseSampler(system.read)
    yield sampler
    sampler.close()


def test_our_own_work_is_no_noise(system, sampler):
    system.advance(1.0, busy_s=1.6, own_s=0.1)
    assert sampler.sample(our_cpu_s=1.0, our_pids=()).other_cpu_pct == pytest.approx(50.0)
    system.advance(1.0, busy_s=0.9)
    assert sampler.sample(our_cpu_s=1.9, our_pids=()).other_cpu_pct == pytest.approx(0.0, abs=0.1)


def test_a_restarted_worker_is_no_negative_work(system, sampler):
    system.advance(1.0, busy_s=1.0)
    sampler.sample(1.0, ())
    system.advance(1.0, busy_s=0.5)
    assert sampler.sample(0.2, ()).other_cpu_pct == pytest.approx(50.0)


def test_steal_is_a_share_of_the_machine(system, sampler):
    system.advance(1.0, busy_s=0.0, steal_s=0.5)
    assert sampler.sample(0.0, ()).steal_pct == pytest.approx(25.0)


def test_short_intervals_are_added_up(system, sampler):
    system.advance(0.05, busy_s=0.05)
    assert sampler.sample(0.0, ()).other_cpu_pct is None
    system.advance(0.95, busy_s=0.45)
    assert sampler.sample(0.0, ()).other_cpu_pct == pytest.approx(50.0)


def test_processes_are_looked_for_seldom_and_only_when_others_are_busy(system, sampler, monkeypatch):
    looks = []
    monkeypatch.setattr(noise.psutil, "process_iter", lambda: looks.append(system.now.at_s) or [])
    for _ in range(50):
        system.advance(0.2, busy_s=0.005)
        sampler.sample(0.0, ())
    assert looks == []
    for _ in range(50):
        system.advance(0.2, busy_s=0.2)
        sampler.sample(0.0, ())
    assert 4 <= len(looks) <= 6


def test_a_real_neighbour_is_seen_by_name(monkeypatch):
    monkeypatch.setattr(noise, "SCAN_EVERY_S", 0.3)
    sampler = NoiseSampler()
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        found = []
        for _ in range(10):
            time.sleep(0.4)
            found.append(sampler.sample(0.0, ()))
        assert max(sample.other_cpu_pct for sample in found) > 30
        name = noise.psutil.Process(burner.pid).name()
        assert any(use.name == name and use.cpu_pct > 30 for sample in found for use in sample.busiest)
        before = noise.psutil.Process(burner.pid).cpu_times()
        assert before.user > 0
    finally:
        burner.kill()
        burner.wait()
        sampler.close()


def test_our_workers_are_not_listed(monkeypatch):
    monkeypatch.setattr(noise, "SCAN_EVERY_S", 0.3)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    listed = {}
    monkeypatch.setattr(
        noise.psutil, "process_iter", lambda: [noise.psutil.Process(p) for p in (burner.pid, os.getpid())]
    )
    sampler = NoiseSampler()
    try:
        for _ in range(4):
            time.sleep(0.4)
            listed = sampler.sample(0.0, (burner.pid,)).busiest
        assert listed == ()
    finally:
        burner.kill()
        burner.wait()
        sampler.close()


def test_a_sample_is_cheap(system, sampler):
    own = time.process_time()
    for _ in range(200):
        system.advance(0.2, busy_s=0.0)
        sampler.sample(0.0, ())
    assert (time.process_time() - own) / 200 < 0.005  # CPU time, so that neighbours do not count


class Library:
    """A driver with one GPU that another process uses, held down by heat."""

    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonHwSlowdown = 8
    nvmlClocksThrottleReasonSwThermalSlowdown = 32
    nvmlClocksThrottleReasonHwThermalSlowdown = 64
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 128
    reasons = 64

    def nvmlDeviceGetComputeRunningProcesses(self, _handle):
        return [type("P", (), {"pid": pid}) for pid in (os.getpid(), 77, 2**22 + 5)]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle):
        return self.reasons

    def nvmlShutdown(self):
        pass


def test_neighbours_on_a_gpu_and_throttling_are_seen():
    watch = noise.GpuWatch()
    assert watch.throttled() is None or isinstance(watch.throttled(), bool)
    watch._library, watch._handles = Library(), [0]
    assert watch.others({os.getpid(), 77}) == (f"process {2**22 + 5}",)
    assert watch.throttled() is True
    watch._library.reasons = 1  # idle
    assert watch.throttled() is False
