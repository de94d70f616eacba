"""The machine's description, on this machine and on others made up of files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from core.evidence import Environment, Gpu
from core.machine import environment
from core.machine.environment import capture_environment, gpu_advice, list_devices
from core.worker.probe import probe_devices


def test_this_machine_is_described_survives_json_and_does_not_give_away_its_name(monkeypatch):
    found = capture_environment()
    assert found.cpu
    assert 1 <= found.usable_cores <= found.logical_cores
    assert 0 < found.memory_available_bytes <= found.memory_bytes
    assert found.versions["tensorflow"].startswith("2.")
    assert Environment.model_validate_json(found.model_dump_json()) == found
    monkeypatch.setattr(environment.socket, "gethostname", lambda: "secret-box")
    first = capture_environment()
    assert len(first.hostname_hash) == 12
    assert "secret" not in first.model_dump_json()
    monkeypatch.setattr(environment.socket, "gethostname", lambda: "other-box")
    assert capture_environment().hostname_hash != first.hostname_hash


def test_no_framework_is_imported():
    code = (
        "import sys; from core.machine.environment import capture_environment, list_devices; "
        "import core.machine.interference, core.worker.process, core.worker.timing, core.worker.pitfalls, "
        "core.worker.server\n"
        "capture_environment(); list_devices()\n"
        "raise SystemExit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "800000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ({}, 64),
    ],
)
def test_usable_cores_heed_a_quota(tmp_path, monkeypatch, files, cores):
    write(tmp_path, files)
    monkeypatch.setattr(environment, "CGROUP", tmp_path)
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _pid: set(range(64)), raising=False)
    assert environment.usable_cores() == cores


def test_available_memory_heeds_a_cgroup(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "CGROUP", tmp_path)
    free = environment.available_memory_bytes()
    write(tmp_path, {"memory.max": "3000000", "memory.current": "1000000"})
    assert environment.available_memory_bytes() == 2_000_000 < free
    write(tmp_path, {"memory.max": "max"})
    assert environment.available_memory_bytes() > 2_000_000


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("release", "dockerenv", "flags", "expected"),
    [
        ("5.15.0-microsoft-standard-WSL2", False, "", "WSL2"),
        ("4.4.0-19041-Microsoft", False, "", "WSL1"),
        ("6.1.0", False, "flags : fpu hypervisor sse", "virtual machine"),
        ("6.1.0", True, "flags : fpu hypervisor sse", "container in a virtual machine"),
        ("6.1.0", False, "flags : fpu sse", None),
    ],
)
def test_virtualisation(monkeypatch, release, dockerenv, flags, expected):
    monkeypatch.setattr(environment.platform, "release", lambda: release)
    monkeypatch.setattr(environment.Path, "exists", lambda _path: dockerenv)
    monkeypatch.setattr(environment, "_read", lambda path: flags if str(path) == "/proc/cpuinfo" else None)
    assert environment.virtualisation() == expected


@pytest.mark.parametrize(
    ("system", "virtual", "gpu", "cuda", "says"),
    [
        ("Linux", None, False, False, "nvidia-smi"),
        ("Linux", None, True, False, "requirements-gpu.txt"),
        ("Linux", "WSL2", False, False, "driver on Windows"),
        ("Windows", None, True, False, "WSL2"),
        ("Darwin", None, False, False, "macOS"),
    ],
)
def test_advice_names_what_helps_here(system, virtual, gpu, cuda, says):
    advice = gpu_advice(system, virtual, gpu, True, cuda)
    assert says in advice[0]
    assert "imported" in advice[-1]
    assert all(sentence.endswith(".") for sentence in advice)


def test_a_gpu_needs_no_advice_but_what_is_missing_beside_it(monkeypatch):
    assert gpu_advice("Linux", None, True, True, True) == ()
    assert "requirements.txt" in gpu_advice("Linux", None, True, False, True)[0]
    monkeypatch.setattr(environment.Nvml, "gpus", lambda _: (Gpu(name="NVIDIA T4"),))
    monkeypatch.setattr(environment.platform, "system", lambda: "Linux")
    assert [gpu.name for gpu in list_devices().gpus] == ["NVIDIA T4"]
    assert "CUDA packages" in list_devices().advice[0]


@pytest.mark.tensorflow
@pytest.mark.skipif(bool(list_devices().gpus), reason="needs a machine without a GPU")
def test_tensorflow_itself_is_asked_in_a_process_of_its_own(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # another test may have imported it
    probe = probe_devices(120)
    assert not probe.gpu_found
    assert "TensorFlow found no GPU" in probe.said
    assert "tensorflow" not in sys.modules
