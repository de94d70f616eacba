"""The driver's answers, its silence, and that the library is let go of."""

import sys
from contextlib import closing

import pytest

from core.machine.environment import list_devices
from core.machine.interference import InterferenceSampler
from core.machine.nvml import Nvml


class FakeDriver:
    """``pynvml`` with a GPU that does not know its power limit, and one that is lost."""

    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonHwSlowdown = 8
    nvmlClocksThrottleReasonSwThermalSlowdown = 32
    nvmlClocksThrottleReasonHwThermalSlowdown = 64
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 128

    def __init__(self) -> None:
        self.reasons, self.open = 64, 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index == 1:
            raise RuntimeError("GPU is lost")
        return index

    def nvmlDeviceGetName(self, _handle: int) -> bytes:
        return b"NVIDIA T4"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.1"

    def nvmlDeviceGetMemoryInfo(self, _handle: int) -> object:
        return type("Info", (), {"total": 16 * 2**30})

    def nvmlDeviceGetCudaComputeCapability(self, _handle: int) -> tuple[int, int]:
        return 7, 5

    def nvmlDeviceGetPowerManagementLimit(self, _handle: int) -> int:
        raise RuntimeError("not supported")

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: int) -> list[object]:
        return [type("Process", (), {"pid": pid}) for pid in (7, 77)]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: int) -> int:
        return self.reasons


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return driver


def test_gpus_neighbours_and_throttling_are_read_from_the_driver_if_there_is_one(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Nvml()) as nvml:
        (gpu,) = nvml.gpus()
        assert (gpu.name, gpu.memory_bytes, gpu.driver) == ("NVIDIA T4", 16 * 2**30, "550.1")
        assert (gpu.compute_capability, gpu.power_limit_w) == ("7.5", None)
        assert nvml.computing_pids() == {7, 77}
        assert nvml.throttled() is True
        driver.reasons = 1  # idle
        assert nvml.throttled() is False
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with closing(Nvml()) as nvml:
        assert (nvml.gpus(), nvml.computing_pids(), nvml.throttled()) == ((), set(), None)


def test_whoever_opens_the_library_closes_it(driver: FakeDriver) -> None:
    assert len(list_devices().gpus) == 1
    assert driver.open == 0
    with closing(InterferenceSampler()) as sampler:
        assert driver.open == 1
    sampler.close()
    assert driver.open == 0
    assert sampler.sample(0.0, ()).throttled is None
