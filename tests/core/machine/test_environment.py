"""The machine's description, on this machine and on others made of files."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from core.base.evidence import Environment
from core.machine import environment, gpu_notes
from core.machine.cgroup import Limits
from core.machine.environment import capture_environment, gpu_advice, list_devices, quota_cores
from core.machine.gpu_notes import Library
from core.worker.probe import probe_devices
from core.worker.process import ROOT, worker_environment
from core.workload.spec import Target
from simulated.fake_nvml import FakeNvml

GB = 10**9


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
        "import core.machine.interference, core.worker.process, core.worker.timing, core.studies.pitfalls, "
        "core.worker.server\n"
        "capture_environment(); list_devices()\n"
        "raise SystemExit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def on(monkeypatch, limits, affine=64, ulimit=None):
    """Simulate a machine of 64 cores and 256 GB, 200 of them free, with these limits."""
    monkeypatch.setattr(environment, "read_limits", lambda: limits)
    monkeypatch.setattr(environment, "process_memory_limit", lambda: ulimit)
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _pid: set(range(affine)), raising=False)
    monkeypatch.setattr(environment.psutil, "cpu_count", lambda logical=True: 64 if logical else 32)
    monkeypatch.setattr(
        environment.psutil, "virtual_memory", lambda: SimpleNamespace(total=256 * GB, available=200 * GB)
    )


@pytest.mark.parametrize(
    ("quota", "affine", "usable", "of_quota", "words"),
    [
        (1.5, 64, 1, 1, "1 of 64 cores, limited by the container's CPU quota of 1.5"),
        (0.5, 64, 1, 1, "1 of 64 cores, limited by the container's CPU quota of 0.5"),
        (8.0, 64, 8, 8, "8 of 64 cores, limited by the container's CPU quota of 8"),
        (8.0, 4, 4, None, "4 of 64 cores, limited by the CPU affinity of this process"),
        (100.0, 64, 64, None, "64 cores"),
        (None, 64, 64, None, "64 cores"),
    ],
)
def test_usable_cores_are_the_whole_ones_of_a_quota_or_the_affinity(
    monkeypatch, quota, affine, usable, of_quota, words
):
    on(monkeypatch, Limits(cpus=quota), affine)
    found = capture_environment()
    assert (found.usable_cores, quota_cores(), found.cores_words) == (usable, of_quota, words)
    assert (list_devices().cores_words, list_devices().cpu_quota) == (words, quota)
    threads = worker_environment(Target()).get("OMP_NUM_THREADS")
    assert threads == (os.environ.get("OMP_NUM_THREADS") if of_quota is None else str(of_quota))
    assert worker_environment(Target(threads=3))["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("limits", "ulimit", "free", "words"),
    [
        (Limits(), None, 200 * GB, "200 GB free"),
        (Limits(memory_bytes=8 * GB, memory_free_bytes=6 * GB), None, 6 * GB,
         "6 GB free, limited by the container's memory limit of 8 GB"),
        (Limits(memory_bytes=900 * GB, memory_free_bytes=800 * GB), 500 * GB, 200 * GB, "200 GB free"),
        (Limits(memory_bytes=8 * GB, memory_free_bytes=6 * GB), 2 * GB, 2 * GB,
         "2 GB free, limited by the container's memory limit of 8 GB and this process's own limit of 2 GB (ulimit)"),
    ],
)  # fmt: skip
def test_free_memory_is_what_container_and_process_leave(monkeypatch, limits, ulimit, free, words):
    on(monkeypatch, limits, ulimit=ulimit)
    found = capture_environment()
    assert found.memory_bytes == 256 * GB
    assert environment.available_memory_bytes() == found.memory_available_bytes == free
    assert found.free_words == list_devices().free_words == words
    assert Environment.model_validate_json(found.model_dump_json()) == found


def test_an_environment_of_before_there_were_limits_opens():
    stored = '{"captured_at": "2026-01-05T09:00:00+00:00", "logical_cores": 64, "memory_available_bytes": 2000000000}'
    found = Environment.model_validate_json(stored)
    assert (found.cores_words, found.free_words, found.limited_words) == ("64 cores", "2 GB free", "")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of POSIX, as Linux keeps them")
def test_a_process_is_limited_by_ulimit():
    code = "from core.machine.environment import process_memory_limit; print(process_memory_limit())"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -v 4000000 -d 3000000; {shlex.quote(sys.executable)} -c {shlex.quote(code)}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [str(1024 * 3_000_000)]


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
    ("system", "machine", "virtual", "gpu", "says"),
    [
        ("Linux", "x86_64", None, False, "nvidia-smi"),
        ("Linux", "x86_64", "WSL2", False, "driver on Windows"),
        ("Linux", "aarch64", None, False, "(aarch64) is built without CUDA"),
        ("Windows", "AMD64", None, False, "WSL2"),
        ("Darwin", "arm64", None, False, "macOS"),
    ],
)
def test_advice_names_what_helps_here(system, machine, virtual, gpu, says):
    (advice,) = gpu_advice(system, machine, virtual, True, gpu, ())
    assert says in advice
    assert advice.endswith(".")


def test_a_gpu_needs_no_advice_but_what_is_missing_beside_it():
    assert gpu_advice("Linux", "x86_64", None, True, True, ()) == ()
    assert gpu_advice("Linux", "aarch64", None, True, False, ("It is hidden.",)) == ("It is hidden.",)
    (missing,) = gpu_advice("Linux", "x86_64", None, False, True, ())
    assert "requirements.txt" in missing


def test_a_gpu_without_its_libraries_is_listed_and_not_proposed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr(gpu_notes.platform, "system", lambda: "Linux")
    monkeypatch.setattr(gpu_notes, "cuda_libraries", lambda: [Library("nvidia-cudnn-cu12", "gpu")])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = list_devices()
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA T4"]
    assert "CUDA packages" in found.advice[0]
    assert not any(target.is_gpu for target in found.default_targets())


@pytest.mark.tensorflow
@pytest.mark.skipif(bool(list_devices().gpus), reason="needs a machine without a GPU")
def test_tensorflow_itself_is_asked_in_a_process_of_its_own(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # another test may have imported it
    probe = probe_devices(120)
    assert not probe.gpu_found
    assert "found no GPU" in probe.said
    assert "tensorflow" not in sys.modules
