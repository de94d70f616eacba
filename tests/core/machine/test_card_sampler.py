"""The thread that samples a GPU while a block runs on it: its rate, its cost, and its end."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from core.base.evidence import CardUse
from core.machine.meter import Card, CardSampler, Meter
from core.machine.nvml import Handle
from simulated.fake_nvml import FakeCard, FakeNvml

SOON_S = 20.0  # upper limit, on a busy machine


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "breakeven-cards"]


def wait_for(condition: object) -> None:
    end_s = time.monotonic() + SOON_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.005)


@contextmanager
def sampling(nvml: FakeNvml) -> Iterator[CardSampler]:
    with closing(CardSampler(lambda _: Card(nvml, Handle(nvml.cards[0], nvml.cards[0])))) as sampler:
        yield sampler
    assert not threads()


def sampled(nvml: FakeNvml, times: int) -> int:
    """Return how often the card was asked for its power, at least ``times``."""
    wait_for(lambda: nvml.asked.count("nvmlDeviceGetPowerUsage") >= times)
    return nvml.asked.count("nvmlDeviceGetPowerUsage")


def test_a_block_is_sampled_and_its_cost_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.machine.meter.EVERY_S", 0.05)
    nvml = FakeNvml([FakeCard(utilisation_pct=40, reasons=4)])
    with sampling(nvml) as sampler:
        assert not threads(), "nothing starts before a block"
        begin_s = time.perf_counter()
        sampler.begin("gpu:0")
        sampled(nvml, 8)
        found = sampler.end()
        length_s = time.perf_counter() - begin_s
        assert found is not None
        assert 7 <= found.samples <= length_s / 0.05 + 1
        assert (found.util_pct, found.reasons) == (40, {"power_cap": found.busy})
        assert found.length_s == pytest.approx(length_s, abs=0.5)
        assert found.cpu_ms > 0
        assert found.ask_ms > 0
        assert (found.tx_mb_s, found.rx_mb_s) == (0, 0)
        assert sampler.end() is None


def test_between_blocks_nothing_is_asked() -> None:
    nvml = FakeNvml()
    with sampling(nvml) as sampler:
        sampler.begin("gpu:0")
        sampled(nvml, 1)
        sampler.end()
        asked = len(nvml.asked)
        time.sleep(0.2)
        assert len(nvml.asked) <= asked + 20, "no more than the sample that was under way"


def test_an_answer_that_comes_late_is_not_the_next_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.machine.meter.ENDING_S", 0.05)
    nvml, held, release = FakeNvml([FakeCard(utilisation_pct=99)]), threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "nvmlDeviceGetPowerUsage" and not held.is_set():  # after the utilisation
            held.set()
            release.wait(SOON_S)

    nvml.before = hold
    with sampling(nvml) as sampler:
        sampler.begin("gpu:0")
        assert held.wait(SOON_S)
        assert sampler.end() is None
        nvml.cards[0].utilisation_pct = 5
        sampler.begin("gpu:0")
        release.set()
        sampled(nvml, 3)
        found = sampler.end()
    assert found is not None
    assert found.util_pct == 5


def test_a_thread_that_waits_for_the_driver_delays_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml, held, release = FakeNvml(), threading.Event(), threading.Event()

    def hold(_name: str) -> None:
        held.set()
        release.wait(SOON_S)

    monkeypatch.setattr("core.machine.meter.ENDING_S", 0.05)
    nvml.before = hold
    sampler = CardSampler(lambda _: Card(nvml, Handle(nvml.cards[0], nvml.cards[0])))
    sampler.begin("gpu:0")
    assert held.wait(SOON_S)
    begin_s = time.perf_counter()
    assert sampler.end() is None
    sampler.close()
    sampler.close()
    assert time.perf_counter() - begin_s < SOON_S / 2
    release.set()
    wait_for(lambda: not threads())
    sampler.begin("gpu:0")
    assert not threads(), "closed is closed"


def test_a_card_that_nvml_does_not_show_starts_nothing() -> None:
    asked: list[str] = []

    def none(device: str) -> Card | None:
        asked.append(device)

    with closing(CardSampler(none)) as sampler:
        for _ in range(3):
            sampler.begin("gpu:7")
            assert sampler.end() is None
    assert asked == ["gpu:7"]
    assert not threads()


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    nvml = FakeNvml([FakeCard(utilisation_pct=1), FakeCard(name="Other", uuid="GPU-1", bus="2", utilisation_pct=77)])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    return nvml


def use_of(meter: Meter, nvml: FakeNvml, device: str) -> CardUse | None:
    before = nvml.asked.count("nvmlDeviceGetPowerUsage")
    meter.begin(device)
    sampled(nvml, before + 2)
    return meter.end()


def test_a_meter_opens_nvml_when_a_gpu_is_measured_and_lets_go_of_it(nvml: FakeNvml, tmp_path: Path) -> None:
    with closing(Meter(tmp_path)) as meter:
        assert nvml.open == 0
        assert "package energy" in meter.refused("cpu")
        assert meter.package_j() is None
        assert nvml.open == 0, "the CPU needs none"
        found = use_of(meter, nvml, "gpu:1")
        assert found is not None
        assert found.util_pct == 77
        assert meter.refused("gpu:1") == ""
        assert nvml.open == 1
    assert nvml.open == 0
    assert not threads()


def test_a_meter_says_why_energy_is_not_known(nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Meter(tmp_path)) as meter:
        assert "“nvidia-smi”" in meter.refused("gpu:5")
        meter.begin("gpu:5")
        assert meter.end() is None
    nvml.cards[0].mig = (FakeCard(uuid="MIG-1"),)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    with closing(Meter(tmp_path)) as meter:
        assert "MIG slice" in meter.refused("gpu:0")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with closing(Meter(tmp_path)) as meter:
        assert "nvidia-ml-py is installed" in meter.refused("gpu:0")
