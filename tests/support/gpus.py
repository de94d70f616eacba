"""A machine with GPUs and all that TensorFlow needs for them, as far as the program itself can see."""

import sys

import pytest

from core.machine import gpu_notes
from core.machine.gpu_notes import Build, Library
from simulated.fake_nvml import FakeCard, FakeNvml

WHEEL = Build(True, 12, ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"))
"""Build flags of TensorFlow 2.21 from PyPI."""
BLACKWELL = FakeCard("NVIDIA GeForce RTX 5090", capability=(12, 0))
LIBRARIES = tuple(
    Library(f"nvidia-{name}-cu12", purpose, ">=12", "12.9", True)
    for name, purpose in (("cudnn", "gpu"), ("cuda-cupti", "trace"), ("cuda-nvcc", "xla"))
)


def plug_in(monkeypatch: pytest.MonkeyPatch, *cards: FakeCard, **env: str) -> FakeNvml:
    """Put cards into this machine, with its environment variables."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gpu_notes, "cuda_libraries", lambda: LIBRARIES)
    monkeypatch.setattr(gpu_notes, "tensorflow_build", lambda: WHEEL)
    monkeypatch.setattr(gpu_notes.platform, "system", lambda: "Linux")
    driver = FakeNvml(list(cards))
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return driver
