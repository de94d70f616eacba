"""The Sweep page's sentences on this machine's GPUs, and the ones that it proposes."""

from collections.abc import Callable
from typing import Any

import pytest

from core.ui import machine
from simulated.fake_nvml import FakeCard
from simulated.pages import open_page, says, sweeping, text_of
from simulated.runs import make_run
from tests.support.gpus import BLACKWELL, plug_in
from tests.support.study_pages import start

DEVICES = machine.devices  # before the engine of tests replaces it


@pytest.fixture
def here(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Open the Sweep page on a machine with these cards."""

    def opened(*cards: FakeCard, **env: str) -> Any:
        assert engine
        machine._devices.clear()
        plug_in(monkeypatch, *cards, **env)
        monkeypatch.setattr(machine, "devices", DEVICES)
        return open_page()

    return opened


def devices_of(at: Any) -> list[str]:
    return list(at.selectbox(key="form_device_1").options)


def test_a_gpu_that_cannot_be_used_is_named_with_the_reason_and_not_proposed(here: Any, engine: Any) -> None:
    at = here(BLACKWELL)
    says(at, "capability 12.0", "No GPU of")
    assert "No GPU was" not in text_of(at)
    assert ["cannot be used" in device for device in devices_of(at)] == [False, True]
    assert not any(target.is_gpu for target in start(engine, at, "sweep").plan.targets)


def test_the_first_gpu_that_can_be_used_is_proposed(here: Any, engine: Any) -> None:
    at = here(BLACKWELL, FakeCard("NVIDIA L4", memory_used=8 * 2**30))
    says(at, "capability 12.0", "has 8.59 GB", "17.2 GB", "GPUs differ")
    assert [str(target) for target in start(engine, at, "sweep").plan.targets] == [
        "cpu", "gpu:1", "cpu,execution=xla"
    ]  # fmt: skip


def test_a_hidden_gpu_is_said_to_be_hidden(here: Any) -> None:
    at = here(FakeCard(), CUDA_VISIBLE_DEVICES="[x](https://a.example)")
    says(at, "hides every GPU", "imported and read")
    assert "No GPU was" not in text_of(at)
    assert "](https://a.example)" not in text_of(at)
    assert devices_of(at) == ["CPU"]


def test_what_our_own_workers_take_of_a_gpu_is_nobody_elses(here: Any, engine: Any) -> None:
    engine.jobs.show(sweeping(make_run()))
    at = here(FakeCard(memory_used=8 * 2**30))
    assert "of memory free" not in text_of(at)
    engine.jobs.show(sweeping(make_run(), active=False))
    says(here(FakeCard(memory_used=8 * 2**30)), "of other programs")


def test_the_form_says_where_float32_is_tf32(here: Any) -> None:
    at = here(FakeCard("NVIDIA Tesla T4", capability=(7, 5)), FakeCard("NVIDIA L4", capability=(8, 9)))
    precision, device = (at.selectbox(key=f"form_{field}_1") for field in ("precision", "device"))
    assert "TF32" not in precision.help.partition(".")[0]
    assert "GPU 0: XLA" in text_of(at)
    device.select("gpu:1").run()
    assert at.selectbox(key="form_precision_1").help.partition(".")[0].endswith("TF32")
    says(at, "GPU 1: XLA", "; float32 (TF32).")
    at.selectbox(key="form_precision_1").select("float32_strict").run()
    says(at, "; float32 without")
    at.selectbox(key="form_device_1").select("gpu:0").run()
    assert at.selectbox(key="form_precision_1").value == "float32_strict"
