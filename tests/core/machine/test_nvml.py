"""The driver's answers, its silence, and the release of the library."""

import sys
from contextlib import closing

import pytest

from core.machine.environment import list_devices
from core.machine.interference import InterferenceSampler
from core.machine.nvml import Nvml
from core.workload.spec import Target
from simulated.fake_nvml import FakeCard, FakeNvml

GPU = (Target(device="gpu:0"),)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Simulate a GPU that does not know its power limit, and one that is lost."""
    driver = FakeNvml([FakeCard(power_limit_mw=None, pids=(7, 77), reasons=64), FakeCard(lost=True)], driver="550.1")
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return driver


@pytest.mark.usefixtures("driver")
def test_gpus_and_neighbours_are_read_from_the_driver_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Nvml()) as nvml:
        (gpu,) = nvml.gpus()
        assert (gpu.name, gpu.memory_bytes, gpu.driver) == ("NVIDIA T4", 16 * 2**30, "550.1")
        assert (gpu.compute_capability, gpu.power_limit_w, gpu.mig) == ("7.5", None, False)
        assert nvml.computing_pids(nvml.measured(GPU)) == {7, 77}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with closing(Nvml()) as nvml:
        assert (nvml.gpus(), nvml.computing_pids(nvml.measured(GPU))) == ((), set())


def test_a_driver_that_does_not_answer_is_remembered(driver: FakeNvml) -> None:
    def refuse(_name: str) -> None:
        raise RuntimeError("Driver/library version mismatch")

    driver.before = refuse
    with closing(Nvml()) as nvml:
        assert (nvml.gpus(), nvml.error) == ((), "Driver/library version mismatch")


def test_whoever_opens_the_library_closes_it(driver: FakeNvml) -> None:
    assert len(list_devices().gpus) == 1
    assert driver.open == 0
    with closing(InterferenceSampler()) as sampler:
        sampler.watch(GPU)
        assert driver.open == 1
    sampler.close()
    assert driver.open == 0
    assert sampler.sample(0.0, ()).throttled is None
