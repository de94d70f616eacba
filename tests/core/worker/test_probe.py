"""The questions of ``devices`` to the frameworks, with workers that are not started."""

from __future__ import annotations

import pytest

from core.base.frameworks import FRAMEWORKS
from core.worker import probe
from core.worker.probe import FrameworkHere, frameworks_here, probe_frameworks
from core.worker.protocol import CellFailed, Ready
from core.workload.spec import Target


class Asked:
    """Worker for any CPU and for no GPU."""

    def __init__(self, target: Target) -> None:
        self._target, self.ready = target, Ready(pid=1, startup_ms=1.0, device="CPU:0")

    def wait_ready(self, deadline_s: float) -> None:
        assert 0 <= deadline_s <= 60
        if not self._target.on_cpu:
            raise CellFailed("error", f"There is no {self._target.device}.")

    def close(self) -> None:
        self._target = Target()


def test_every_framework_is_listed_with_its_versions_or_what_to_install() -> None:
    here = frameworks_here()
    assert [one.name for one in here] == list(FRAMEWORKS)
    assert all(bool(one.versions) or one.missing for one in here)
    assert all(one.devices is None for one in here)


def test_those_that_are_installed_are_asked_for_the_devices_that_there_is_a_sign_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "ProcessWorker", Asked)
    monkeypatch.setattr(probe.platform, "system", lambda: "Darwin")
    here = (
        FrameworkHere(name="tensorflow", title="TensorFlow", versions={}),
        FrameworkHere(name="jax", title="JAX", versions={}, missing="JAX is not installed."),
        FrameworkHere(name="torch", title="Keras on PyTorch", versions={}),
    )
    keras, jax, torch = probe_frameworks(here, gpus=1, deadline_s=60)
    assert [(found.device, found.said) for found in keras.devices or ()] == [
        ("cpu", ""), ("gpu:0", "There is no gpu:0."),
    ]  # fmt: skip
    assert jax.devices is None
    assert [found.device for found in torch.devices or ()] == ["cpu", "gpu:0", "mps"]
