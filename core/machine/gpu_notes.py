"""Obstacles to measuring on a GPU that NVML lists, in one sentence each; pure functions of the facts that
:func:`gpu_facts` collects without a framework.

Sources: TensorFlow's own start-up (it loads CUDA's libraries, then leaves out cards older than its code), NVIDIA's
table of drivers for each major version of CUDA (CUDA compatibility, table 1), and for cards newer than all built code
TensorFlow's issues 97387, 99592 and 101746.
"""

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement

from core.base.evidence import Gpu
from core.base.numbers import byte_size
from core.base.schema import Frozen
from core.machine.nvml import ORDER, VISIBLE, Handle, Listed, Nvml, Visible
from core.workload.spec import Target

Severity = Literal["unusable", "limited", "fact"]
SEVERITIES: tuple[Severity, ...] = ("unusable", "limited", "fact")
OF_USE = ("memory_taken", "memory_short", "exclusive_taken")
"""Codes that our own running workers also cause."""

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}  # by CUDA's major version
LEAST_FREE_BYTES = 800_000_000  # needed on a card by CUDA, cuBLAS and cuDNN before any data
MOSTLY_FREE = 0.8  # share of a card; a desktop and the driver take less than the rest
EXCLUSIVE, PROHIBITED = (1, 3), 2  # NVML's compute modes
INSTALL = "“pip install -r requirements-gpu.txt”"
NO_WINDOWS = (
    "TensorFlow has had no GPU support on Windows itself since version 2.11; install Breakeven in WSL2 with "
    "requirements-gpu.txt instead."
)
NO_ARM = (
    "TensorFlow's package for Linux on ARM (aarch64) is built without CUDA, so that it uses no GPU; measure on an "
    "x86-64 machine, or with a TensorFlow built from source with CUDA."
)

SENTENCES: dict[str, tuple[Severity, str]] = {
    "driver_silent": (
        "unusable",
        "NVIDIA's driver is installed and does not answer (“{problem}”); restart this machine, and install the driver "
        "again if “nvidia-smi” lists no GPU then.",
    ),
    "driver_old": (
        "unusable",
        "NVIDIA's driver{has} is too old for this TensorFlow: it knows CUDA {knows} at most, and CUDA {needs} is "
        "needed; install driver {oldest}.",
    ),
    "windows": ("unusable", NO_WINDOWS),
    "cpu_build_arm": ("unusable", NO_ARM),
    "cpu_build": (
        "unusable",
        f"The installed TensorFlow is built without CUDA; uninstall it and run {INSTALL}.",
    ),
    "libraries_wrong": (
        "unusable",
        "TensorFlow's CUDA libraries do not fit it ({package} is {version}, and {wanted} with its files is wanted); "
        f"run {INSTALL}.",
    ),
    "libraries_missing": (
        "unusable",
        f"A GPU and its driver are here, but TensorFlow's CUDA packages are not ({{package}}); run {INSTALL}.",
    ),
    "libraries_of_system": (
        "fact",
        "TensorFlow takes CUDA's libraries from the system here; “devices --probe” says whether they fit.",
    ),
    "no_cupti": (
        "limited",
        "CUPTI (nvidia-cuda-cupti) is missing, so that traces cannot show what a GPU does, while times are measured "
        f"all the same; run {INSTALL}.",
    ),
    "no_nvcc": (
        "limited",
        "CUDA's compiler files (nvidia-cuda-nvcc) are missing, without which XLA may not compile for a GPU; run "
        f"{INSTALL}.",
    ),
    "mig_empty": (
        "limited",
        "MIG is on and a card has no instance of it, so that CUDA cannot use that card; make one with “sudo nvidia-smi "
        "mig -cgi 0 -C”, or switch MIG off with “sudo nvidia-smi -mig 0”.",
    ),
    "hidden": (
        "unusable",
        f"{VISIBLE} is “{{value}}”, which hides every GPU from TensorFlow; unset it, or set it to the number of the "
        "GPU to measure.",
    ),
    "hidden_from_here": (
        "limited",
        f"{VISIBLE} is “{{value}}”, in which “{{entry}}” names no GPU of this machine, and CUDA hides all that follow; "
        "correct it, or measure on what is left.",
    ),
    "hidden_some": (
        "fact",
        f"{VISIBLE} is “{{value}}” and leaves {{shown}} of {{total}} GPUs: {{names}}; unset it to measure another.",
    ),
    "order_unknown": (
        "limited",
        f"{ORDER} is “{{value}}”, so that which card a target such as gpu:0 means is seen only once TensorFlow runs; "
        f"unset it, or name cards by UUID in {VISIBLE}.",
    ),
    "kinds_differ": ("fact", "The GPUs differ ({names}); name the one to measure as the target."),
    "too_new": (
        "unusable",
        "{gpu} has compute capability {has}, newer than all code in this TensorFlow (up to {built}): compiling it for "
        "the card takes half an hour or fails with CUDA_ERROR_INVALID_PTX; measure on another card, or with a "
        "TensorFlow built from source for this one.",
    ),
    "no_code": (
        "unusable",
        "{gpu} has compute capability {has}, for which this TensorFlow has no code (it begins at {built}), so that it "
        "leaves the card out; measure on a newer card, or with a TensorFlow built from source for this one.",
    ),
    "prohibited": (
        "unusable",
        "{gpu} is in compute mode “prohibited”, in which no program may compute on it; run “sudo nvidia-smi -c 0”.",
    ),
    "exclusive_taken": (
        "unusable",
        "{gpu} is in an exclusive compute mode and another process has it; end it, or run “sudo nvidia-smi -c 0”.",
    ),
    "exclusive": (
        "limited",
        "{gpu} is in an exclusive compute mode, so that two targets on it cannot be compared; for that run “sudo "
        "nvidia-smi -c 0”.",
    ),
    "memory_taken": (
        "unusable",
        "{gpu} has {free} of {total} of memory free, too little for TensorFlow to start; end the processes that "
        "“nvidia-smi” lists, or choose another device.",
    ),
    "memory_short": (
        "limited",
        "{gpu} has {free} of {total} of memory free because of other programs, so that large batches fail earlier and "
        "times may be disturbed; “nvidia-smi” lists them.",
    ),
    "mig": (
        "limited",
        "{gpu} is a slice of a card (MIG): its memory is the slice's, but clocks, power and heat are the whole card's, "
        "which other slices share; for undisturbed times keep those idle.",
    ),
}


class GpuNote(Frozen):
    """A note on a GPU or all (``target`` None); ``code`` is stable, ``sentence`` states the problem and the remedy.

    A plan that names an ``unusable`` GPU is refused; ``limited`` and ``fact`` are only reported.
    """

    code: str
    severity: Severity
    sentence: str
    target: str | None = None


@dataclass(frozen=True)
class Build:
    """Build options of the installed TensorFlow; ``capabilities`` in its notation (sm_80, compute_90)."""

    cuda: bool
    cuda_major: int | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """A CUDA library that TensorFlow requires: ``package`` in versions ``wanted``, of which ``version`` is installed.

    ``purpose``: the feature that fails without it. ``fits``: the version is suitable and its file exists.
    ``elsewhere``: the system has a library of that name.
    """

    package: str
    purpose: Literal["gpu", "trace", "xla"]
    wanted: str = ""
    version: str | None = None
    fits: bool = False
    elsewhere: bool = False


@dataclass(frozen=True)
class Card:
    """A GPU as a framework would see it. ``mode`` is NVML's compute mode; ``taken``: some process computes on it."""

    gpu: Gpu
    free_bytes: int | None = None
    mode: int | None = None
    taken: bool = False


@dataclass(frozen=True)
class GpuFacts:
    """Facts about GPUs and their software.

    ``cards`` are in the framework's order (:mod:`core.machine.nvml`), ``listed`` in NVML's. ``problem``: the reason
    an installed NVIDIA driver does not answer. ``cuda_driver``: the newest CUDA that it supports. ``hidden_by`` and
    ``order``: the user's CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
    """

    system: str
    machine: str
    cards: tuple[Card, ...] = ()
    listed: tuple[Listed, ...] = ()
    visible: Visible = field(default_factory=lambda: Visible(()))
    problem: str | None = None
    cuda_driver: tuple[int, int] | None = None
    hidden_by: str | None = None
    order: str | None = None
    build: Build | None = None
    libraries: tuple[Library, ...] = ()


def gpu_notes(facts: GpuFacts) -> tuple[GpuNote, ...]:
    """Return all notes on the GPUs that the driver lists, the most severe first."""
    notes = [*_of_driver(facts), *_of_framework(facts), *_of_visibility(facts)]
    for index, card in enumerate(facts.cards):
        notes += _of_card(facts, index, card)
    return tuple(sorted(notes, key=lambda note: SEVERITIES.index(note.severity)))


def why_unusable(notes: Iterable[GpuNote], gpus: int, target: Target) -> str | None:
    """Return the reason a target cannot be measured, if known before its worker starts. ``gpus``: number of visible
    GPUs.
    """
    if not target.is_gpu:
        return None
    for note in notes:
        if note.severity == "unusable" and note.target in (None, *target.devices):
            return note.sentence
    if gpus and (missing := [f"gpu:{index}" for index in target.gpus if index >= gpus]):
        there = "only gpu:0" if gpus == 1 else f"gpu:0 to gpu:{gpus - 1}"
        return f"There is no {missing[0]} here; choose among those that TensorFlow sees, {there}."
    return None


def _note(code: str, **words: object) -> GpuNote:
    severity, sentence = SENTENCES[code]
    return GpuNote(code=code, severity=severity, sentence=sentence.format(**words))


def _of_driver(facts: GpuFacts) -> Iterator[GpuNote]:
    if facts.problem is not None:
        yield _note("driver_silent", problem=facts.problem[:80])
    needs = facts.build.cuda_major if facts.build is not None else None
    if facts.listed and needs is not None and facts.cuda_driver is not None and facts.cuda_driver[0] < needs:
        has = next((f" {card.gpu.driver}" for card in facts.cards if card.gpu.driver), "")
        oldest = f"{OLDEST_DRIVER[needs]} or newer" if needs in OLDEST_DRIVER else f"for CUDA {needs}"
        yield _note("driver_old", has=has, knows="{}.{}".format(*facts.cuda_driver), needs=needs, oldest=oldest)


def _of_framework(facts: GpuFacts) -> Iterator[GpuNote]:
    """Yield notes on TensorFlow and its libraries; none if there is no card to use."""
    if not facts.listed:
        return
    if facts.system == "Windows":
        yield _note("windows")
    elif facts.build is not None and not facts.build.cuda:
        yield _note("cpu_build_arm" if (facts.system, facts.machine) == ("Linux", "aarch64") else "cpu_build")
    else:
        yield from _of_libraries(facts.libraries)


def _of_libraries(libraries: tuple[Library, ...]) -> Iterator[GpuNote]:
    """Yield notes on libraries; if the system has one of the right name, only TensorFlow can tell whether it works."""
    absent = [library for library in libraries if not library.fits and not library.elsewhere]
    needed = [library for library in absent if library.purpose == "gpu"]
    needed.sort(key=lambda library: library.version is None)
    if needed:
        first = needed[0]
        code = "libraries_missing" if first.version is None else "libraries_wrong"
        yield _note(code, package=first.package, version=first.version, wanted=first.wanted)
    elif any(library.purpose == "gpu" and not library.fits for library in libraries):
        yield _note("libraries_of_system")
    if any(library.purpose == "trace" for library in absent):
        yield _note("no_cupti")
    if any(library.purpose == "xla" for library in absent):
        yield _note("no_nvcc")


def _of_visibility(facts: GpuFacts) -> Iterator[GpuNote]:
    """Yield notes on the cards left visible by CUDA's variables and MIG, and on their order."""
    total, shown, entry = len(facts.listed), len(facts.cards), facts.visible.broken_by
    names = ", ".join(f"gpu:{index} is {card.gpu.name}" for index, card in enumerate(facts.cards))
    value = (facts.hidden_by or "")[:60]
    waiting = any(card.mig and not card.slices for card in facts.listed)
    if waiting:
        severity: Severity = "limited" if shown else "unusable"
        yield _note("mig_empty").model_copy(update={"severity": severity})
    if facts.hidden_by is not None and total and not shown and not waiting:
        yield _note("hidden", value=value)
    elif entry is not None and shown:
        yield _note("hidden_from_here", value=value, entry=entry[:40])
    elif facts.hidden_by is not None and 0 < shown < total:
        yield _note("hidden_some", value=value, shown=shown, total=total, names=names)
    if shown and not facts.visible.known:
        yield _note("order_unknown", value=(facts.order or "")[:40])
    elif len({card.gpu.name for card in facts.cards}) > 1:
        yield _note("kinds_differ", names=names)


def _of_card(facts: GpuFacts, index: int, card: Card) -> Iterator[GpuNote]:
    """Yield notes on one card. If the order is unknown, a note belongs to no target and refuses none."""
    known, name = facts.visible.known, card.gpu.name
    gpu = f"gpu:{index} ({name})" if known else name
    memory = {"free": byte_size(card.free_bytes or 0), "total": byte_size(card.gpu.memory_bytes or 0)}
    states = [(code, memory) for code in _states(card)]
    if facts.build is not None and facts.build.cuda and (capability := _capability(facts.build, card.gpu)) is not None:
        code, built = capability
        states.append((code, {"has": card.gpu.compute_capability or "", "built": built}))
    for code, words in states:
        note = _note(code, gpu=gpu, **words)
        target = f"gpu:{index}" if known else None
        severity = note.severity if known else "limited"
        yield note.model_copy(update={"target": target, "severity": severity})


def _states(card: Card) -> Iterator[str]:
    """Yield the codes of a card's states: compute mode, memory, MIG."""
    free, total = card.free_bytes, card.gpu.memory_bytes
    if card.mode == PROHIBITED:
        yield "prohibited"
    if card.mode in EXCLUSIVE:
        yield "exclusive_taken" if card.taken else "exclusive"
    if free is not None and free < LEAST_FREE_BYTES:
        yield "memory_taken"
    elif free is not None and total and free < MOSTLY_FREE * total:
        yield "memory_short"
    if card.gpu.mig:
        yield "mig"


def _capability(build: Build, gpu: Gpu) -> tuple[str, str] | None:
    """Return a code for a card outside a build's range of compute capabilities, with the end that it lies beyond.

    None if the build has code for the card, or that is unknown. Binary code runs on cards of its major version from its
    minor version on. ``compute_…`` adds source (PTX), which can be compiled for any newer card.
    """
    codes = [_code(text) for text in build.capabilities]
    known = [code for code in codes if code is not None]
    if gpu.compute_capability is None or not known or len(known) < len(codes):
        return None
    major, minor = (int(part) for part in gpu.compute_capability.split("."))
    if any(code[0] == major and code[1] <= minor for code in known):
        return None
    code, end = ("too_new", max(known)) if (major, minor) > max(known) else ("no_code", min(known))
    return code, f"{end[0]}.{end[1]}"


def _code(text: str) -> tuple[int, int] | None:
    """Parse ``(9, 0)`` from sm_90, compute_90, sm_90a or 9.0."""
    match = re.fullmatch(r"(?:(?:sm|compute)_)?(\d+)\.?(\d)[af]?", text)
    return (int(match[1]), int(match[2])) if match else None


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
        requirements = importlib.metadata.requires("tensorflow") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for text in requirements:
        with contextlib.suppress(InvalidRequirement):
            wanted = Requirement(text)
            known = FILES.get(re.sub(r"-cu\d+$", "", wanted.name))
            if known is not None and EXTRA in text:
                yield _library(wanted, *known)


def _library(wanted: Requirement, file: str, purpose: Literal["gpu", "trace", "xla"]) -> Library:
    oldest = next((entry.version for entry in wanted.specifier if entry.operator == ">="), "")
    if file.endswith(".so"):
        file += f".{oldest.split('.')[0]}"
    version, there = None, False
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        installed = importlib.metadata.distribution(wanted.name)
        version = installed.version
        there = any(
            entry.name.startswith(file) and Path(str(entry.locate())).exists() for entry in installed.files or ()
        )
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
