"""A state for this process itself, as the site gives it to others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from simulated.made_up.replaced import NVML, Replaced
from simulated.made_up.states import STATE, environment


def put_into_state(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
    """Put commands and pages in this process, and the workers they start, into a state."""
    for variable in (STATE, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(variable, raising=False)
    for key, value in environment(name, folder).items():
        monkeypatch.setenv(key, value)
    monkeypatch.delitem(sys.modules, NVML, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Replaced(), *sys.meta_path])
