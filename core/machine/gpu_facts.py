"""Collection of the facts that :mod:`core.machine.gpu_notes` needs. No framework is imported; every probe may fail."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement

from core.base.evidence import Gpu
from core.machine.gpu_notes import Build, Card, GpuFacts, Library
from core.machine.nvml import Handle, Nvml
from core.machine.visible import ORDER, VISIBLE

BUILD_INFO = Path("python", "platform", "build_info.py")
EXTRA = 'extra == "and-cuda"'
FILES: dict[str, tuple[str, Literal["gpu", "trace", "xla"]]] = {
    # libraries that TensorFlow loads before it looks for a GPU (tsl/platform/default/dlopen_checker.cc)
    "nvidia-cuda-runtime": ("libcudart.so", "gpu"),
    "nvidia-cublas": ("libcublas.so", "gpu"),
    "nvidia-cufft": ("libcufft.so", "gpu"),
    "nvidia-cusolver": ("libcusolver.so", "gpu"),
    "nvidia-cusparse": ("libcusparse.so", "gpu"),
    "nvidia-cudnn": ("libcudnn.so", "gpu"),
    "nvidia-cuda-cupti": ("libcupti.so", "trace"),
    "nvidia-cuda-nvcc": ("libdevice", "xla"),
}
"""Decisive file of each package (named without its CUDA version) and its purpose. A library's file name ends in the
required major version."""
SYSTEM_FOLDERS = (
    "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/nvvm/libdevice",
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", f"{sys.prefix}/lib",  # the last: conda's
)  # fmt: skip
LOADER_CACHE = "/etc/ld.so.cache"


def gpu_facts() -> GpuFacts:
    """Return the machine's GPUs and the software installed for them. Takes milliseconds."""
    with contextlib.closing(Nvml()) as nvml:
        gpus = nvml.gpus()
        cards = tuple(_card(nvml, handle, gpu) for handle, gpu in zip(nvml.handles, gpus, strict=True))
        number = nvml.ask("nvmlSystemGetCudaDriverVersion")
        return GpuFacts(
            system=platform.system(),
            machine=platform.machine(),
            cards=cards,
            listed=nvml.listed,
            visible=nvml.visible,
            problem=nvml.error,
            cuda_driver=(number // 1000, number % 1000 // 10) if number else None,
            hidden_by=os.environ.get(VISIBLE),
            order=os.environ.get(ORDER),
            build=tensorflow_build() if nvml.listed else None,
            libraries=tuple(cuda_libraries()) if nvml.listed else (),
        )


def _card(nvml: Nvml, handle: Handle, gpu: Gpu) -> Card:
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle.own)
    return Card(
        gpu=gpu,
        free_bytes=memory and memory.free,
        mode=nvml.ask("nvmlDeviceGetComputeMode", handle.card),
        taken=bool(nvml.computing_pids((handle,))),
    )


def tensorflow_build() -> Build | None:
    """Return the content of ``tensorflow.sysconfig.get_build_info()``, read from its file; None if there is none."""
    with contextlib.suppress(Exception):  # the file may hold anything
        spec = importlib.util.find_spec("tensorflow")
        folders = (spec.submodule_search_locations if spec is not None else None) or ()
        for folder in folders:
            info = _build_info((Path(folder) / BUILD_INFO).read_text(encoding="utf-8"))
            version = re.match(r"\d+", str(info.get("cuda_version", "")))
            return Build(
                cuda=bool(info["is_cuda_build"]),
                cuda_major=int(version[0]) if version else None,
                capabilities=tuple(map(str, info.get("cuda_compute_capabilities", ()))),
            )
    return None


def _build_info(source: str) -> dict[str, Any]:
    """Return the items of ``build_info = collections.OrderedDict([…])``."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            return dict(ast.literal_eval(node.value.args[0]))
    return {}


def cuda_libraries() -> Iterator[Library]:
    """Yield the CUDA libraries that TensorFlow's own metadata require, as installed; none if it requires none."""
    try:
        asked = importlib.metadata.requires("tensorflow") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for text in asked:
        with contextlib.suppress(InvalidRequirement):
            wanted = Requirement(text)
            known = FILES.get(re.sub(r"-cu\d+$", "", wanted.name))
            if known is not None and EXTRA in text:
                yield _library(wanted, *known)


def _library(wanted: Requirement, file: str, purpose: Literal["gpu", "trace", "xla"]) -> Library:
    oldest = next((one.version for one in wanted.specifier if one.operator == ">="), "")
    if file.endswith(".so"):
        file += f".{oldest.split('.')[0]}"
    version, there = None, False
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        installed = importlib.metadata.distribution(wanted.name)
        version = installed.version
        there = any(one.name.startswith(file) and Path(str(one.locate())).exists() for one in installed.files or ())
    return Library(
        package=wanted.name,
        purpose=purpose,
        wanted=str(wanted.specifier),
        version=version,
        fits=there and version is not None and wanted.specifier.contains(version, prereleases=True),
        elsewhere=_in_system(file) or (purpose == "xla" and shutil.which("ptxas") is not None),
    )


def _in_system(file: str) -> bool:
    """Return True if the dynamic loader knows a library of that name, or a usual folder has the file."""
    with contextlib.suppress(OSError):
        if f"{file}\0".encode() in Path(LOADER_CACHE).read_bytes():
            return True
    folders = (*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)), *SYSTEM_FOLDERS)
    return any(next(Path(folder).glob(f"{file}*"), None) is not None for folder in folders)
