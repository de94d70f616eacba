"""Interference: separated from our own work, scanned rarely, cheap."""

import os
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest

from core.machine import interference
from core.machine.interference import CpuTimes, InterferenceSampler
from core.workload.spec import Target
from simulated.fake_nvml import FakeCard, FakeNvml


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
    with closing(InterferenceSampler(system.read)) as sampler:
        yield sampler


def test_our_own_work_is_no_interference_nor_a_restarted_worker_negative_work(system, sampler):
    system.advance(1.0, busy_s=1.6, own_s=0.1)
    assert sampler.sample(our_cpu_s=1.0, our_pids=()).other_cpu_pct == pytest.approx(50.0)
    system.advance(1.0, busy_s=0.9)
    assert sampler.sample(our_cpu_s=1.9, our_pids=()).other_cpu_pct == pytest.approx(0.0, abs=0.1)
    system.advance(1.0, busy_s=1.0)
    sampler.sample(2.9, ())
    system.advance(1.0, busy_s=0.5)
    assert sampler.sample(0.2, ()).other_cpu_pct == pytest.approx(50.0)


def test_waits_are_those_of_our_threads_since_the_last_call(system):
    waits = {(7, 70): 5.0, (7, 71): 1.0}

    def of(pids):
        return {thread: waited_s for thread, waited_s in waits.items() if thread[0] in pids}

    with closing(InterferenceSampler(system.read, of)) as made:
        assert sample_after(made, system, (7,)).wait_pct is None  # earlier waiting is no disturbance
        waits[7, 70] += 0.2
        waits[7, 72] = 0.1  # a new thread
        assert sample_after(made, system, (7,)).wait_pct == pytest.approx(30.0)
        del waits[7, 71]  # an ended thread's wait is unknown, and not taken from the others
        waits[8, 80] = 9.0
        assert sample_after(made, system, (7, 8)).wait_pct == 0.0
        waits[8, 80] += 0.5
        assert sample_after(made, system, (8,)).wait_pct == pytest.approx(50.0)
        assert sample_after(made, system, ()).wait_pct is None


def sample_after(made, system, pids, wall_s=1.0):
    system.advance(wall_s, busy_s=0.0)
    return made.sample(0.0, pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what threads wait for")
def test_the_waits_of_this_very_process_can_be_read():
    waits = interference.read_waits((os.getpid(), 2**22 + 1))
    assert (os.getpid(), os.getpid()) in waits
    assert all(waited_s >= 0 for waited_s in waits.values())


def test_short_intervals_are_added_up_and_steal_is_a_share_of_the_machine(system, sampler):
    system.advance(0.05, busy_s=0.05)
    assert sampler.sample(0.0, ()).other_cpu_pct is None
    system.advance(0.95, busy_s=0.45)
    assert sampler.sample(0.0, ()).other_cpu_pct == pytest.approx(50.0)
    system.advance(1.0, busy_s=0.0, steal_s=0.5)
    assert sampler.sample(0.0, ()).steal_pct == pytest.approx(25.0)


def test_what_a_reset_leaves_out_is_in_no_sample_and_short_visits_add_up(system, sampler):
    """Importing a framework before a visit of 50 ms passed for another program during it."""
    system.advance(4.0, busy_s=4.0)
    sampler.reset(0.0, ())
    system.advance(0.05, busy_s=0.01)
    assert sampler.sample(0.0, ()).other_cpu_pct is None
    system.advance(2.0, busy_s=2.0)
    sampler.reset(0.0, ())
    system.advance(0.06, busy_s=0.045)
    assert sampler.sample(0.0, ()).other_cpu_pct == pytest.approx(50.0)
    system.advance(0.2, busy_s=0.02)
    assert sampler.sample(0.0, ()).other_cpu_pct == pytest.approx(10.0)


@pytest.fixture
def burners(monkeypatch):
    """Start two processes that keep a core busy each, and scan often for others."""
    monkeypatch.setattr(interference, "SCAN_EVERY_S", 0.3)
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield [psutil.Process(process.pid) for process in started]
    for process in started:
        process.kill()
        process.wait()


def samples(our_pids=()):
    """Yield what a sampler finds twice a second for up to a minute, since a busy machine leaves a neighbour little
    time.
    """
    with closing(InterferenceSampler()) as sampler:
        for _ in range(120):
            time.sleep(0.5)
            yield sampler.sample(0.0, our_pids)


def test_a_real_neighbour_is_seen_by_name(burners):
    name = burners[0].name()
    assert any(s.other_cpu_pct > 30 and any(u.name == name and u.cpu_pct > 30 for u in s.busiest) for s in samples())


def test_our_workers_are_not_listed(burners, monkeypatch):
    for process, name in zip(burners, ("ours", "theirs"), strict=True):
        monkeypatch.setattr(process, "name", lambda name=name: name)
    monkeypatch.setattr(interference.psutil, "process_iter", lambda: burners)
    listed = next(found for sample in samples((burners[0].pid,)) if (found := sample.busiest))
    assert [use.name for use in listed] == ["theirs"]


def test_processes_are_looked_for_seldom_cheaply_and_only_when_others_are_busy(system, sampler, monkeypatch):
    own = time.process_time()
    for _ in range(200):
        system.advance(0.2, busy_s=0.0)
        sampler.sample(0.0, ())
    assert (time.process_time() - own) / 200 < 0.005  # CPU time, so that neighbours do not count
    looks = []
    monkeypatch.setattr(interference.psutil, "process_iter", lambda: looks.append(system.now.at_s) or [])
    for _ in range(50):
        system.advance(0.2, busy_s=0.005)
        sampler.sample(0.0, ())
    assert looks == []
    for _ in range(50):
        system.advance(0.2, busy_s=0.2)
        sampler.sample(0.0, ())
    assert 4 <= len(looks) <= 6


OURS, FOREIGN, NOBODY = 77, 88, 2**22 + 5


@pytest.fixture
def shared(system, monkeypatch):
    """Return a function from the processes on a GPU before our worker's start and afterwards to the reported
    neighbours.
    """
    monkeypatch.setattr(interference, "_process_name", lambda pid: {OURS: "ours", FOREIGN: "theirs"}.get(pid))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def neighbours(before, after, target="gpu:0", other_card=()):
        card = FakeCard(pids=before)
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([card, FakeCard(pids=other_card, reasons=64)]))
        with closing(InterferenceSampler(system.read)) as sampler:
            sampler.watch((Target.parse(target), Target()))
            card.pids = after
            system.advance(2.0, busy_s=0.0)
            return sampler.sample(0.0, (OURS,))

    return neighbours


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((), (OURS,), ()),
        ((FOREIGN,), (OURS, FOREIGN), ("theirs",)),
        ((), (OURS, FOREIGN), ("theirs",)),  # started later, and is known here
        ((NOBODY,), (OURS, NOBODY), (f"process {NOBODY}",)),
        ((), (OURS, NOBODY), ()),  # started later, indistinguishable from a child of ours
        ((FOREIGN,), (OURS,), ()),
    ],
)
def test_neighbours_on_a_gpu_are_named(shared, before, after, said):
    assert shared(before, after).gpu_shared_by == said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((), (NOBODY,), ()),  # our own worker by the host's number
        ((), (FOREIGN,), ()),  # the same, a number that happens to be another process's here
        ((FOREIGN,), (FOREIGN, NOBODY), (f"process {FOREIGN}",)),  # before our start, of unknown name outside
    ],
)
def test_in_a_container_our_own_workers_are_no_neighbours(shared, before, after, said):
    assert shared(before, after).gpu_shared_by == said


def test_only_the_measured_gpu_is_looked_at(shared):
    elsewhere = shared((), (OURS,), other_card=(FOREIGN,))
    assert elsewhere.gpu_shared_by == ()
    there = shared((), (OURS,), "gpu:1", other_card=(FOREIGN,))
    assert there.gpu_shared_by == (f"process {FOREIGN}",)
    nowhere = shared((FOREIGN,), (FOREIGN,), "cpu,threads=1")
    assert nowhere.gpu_shared_by == ()
