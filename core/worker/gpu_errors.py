"""Faults recognised in errors and logs: memory exhausted, a broken GPU, and known causes with a remedy. No framework.

The worker applies the patterns to a framework's exceptions, the supervisor to the log of a process that ended.

The patterns come from public reports, cited by project and issue number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.base.frameworks import FRAMEWORKS

MEMORY_IS_SHORT = "memory is short"
"""Logged by a worker before a cell that may not fit; if the worker dies then, memory was the cause."""

OUT_OF_MEMORY = re.compile(
    r"memory is short|bad_alloc|MemoryError|RESOURCE_EXHAUSTED|out of memory|OUT_OF_MEMORY|Cannot allocate memory"
    r"|OOM when|STATUS_ALLOC_FAILED|[Ff]ailed to allocate|Dst tensor is not initialized"
)
"""Patterns for CPU and GPU.

On a card cuBLAS and cuDNN report ALLOC_FAILED (tensorflow 60713, 39989), and a copy to a full card reports that its
destination is not initialized (tensorflow 60401).
"""

NO_ALGORITHM = re.compile(r"No algorithm worked")
"""cuDNN found no convolution that runs: out of memory near the limit (tensorflow 60713), else the fault it names."""

OTHER_FAULT = re.compile(
    r"CUDNN_STATUS_(EXECUTION_FAILED|NOT_SUPPORTED|BAD_PARAM|ARCH_MISMATCH|VERSION_MISMATCH|INTERNAL_ERROR)"
)

TOLERATED = "The caller indicates that this is not a failure"
"""A line of TensorFlow's allocator: scratch memory was refused, and TensorFlow takes a path without it."""

HARMLESS = (
    "OUT_OF_MEMORY|INVALID_VALUE|INVALID_HANDLE|INVALID_IMAGE|INVALID_PTX|UNSUPPORTED_PTX_VERSION|NO_BINARY_FOR_GPU"
    "|NOT_FOUND|NOT_SUPPORTED|LAUNCH_OUT_OF_RESOURCES|NO_DEVICE|INVALID_DEVICE|DEINITIALIZED|PEER_ACCESS_ALREADY_ENABLED"
    "|HOST_MEMORY_ALREADY_REGISTERED|SHARED_OBJECT_INIT_FAILED|DEVICE_UNAVAILABLE|PROFILER_DISABLED"
)
"""Errors of CUDA's driver after which a process can go on."""

BROKEN = re.compile(
    rf"CUDA_ERROR_(?!(?:{HARMLESS})\b)[A-Z_]+|illegal memory access|unspecified launch failure|device-side assert"
    r"|misaligned address|uncorrectable ECC|fallen off the bus|GPU is lost|Unexpected Event status"
)
"""Sticky CUDA errors: every later call of the process returns them, too (tensorflow 25866, 46247)."""


def tells_of_memory(text: str | Iterable[str]) -> bool:
    """Return whether an error's text, or any line of a log, reports memory exhausted, on the host or on a card."""
    return any(_line_tells_of_memory(line) for line in ([text] if isinstance(text, str) else text))


def _line_tells_of_memory(line: str) -> bool:
    if TOLERATED in line:
        return False
    return bool(OUT_OF_MEMORY.search(line)) or bool(NO_ALGORITHM.search(line) and not OTHER_FAULT.search(line))


def breaks_process(text: str) -> bool:
    """Return whether an error leaves its process without a usable GPU, so that only a new process helps."""
    return BROKEN.search(text) is not None


WITH_GPU = "“pip install -r requirements-gpu.txt”"
INSTALL = f"run {WITH_GPU} in the environment that runs Breakeven"
NVIDIA_SMI = "until “nvidia-smi” lists the GPU"

TOGETHER = (
    " GPUs that never finish a step together are often held up by IO virtualisation (IOMMU, VT-d), which the exchange "
    "between them may not pass; switch it off in the firmware, or try NCCL_P2P_DISABLE=1."
)
"""Hint for several GPUs that hang (tensorflow 44976)."""


@dataclass(frozen=True)
class Cause:
    """A known cause: its ``signs`` in a text, and one ``sentence`` with the remedy.

    The sentence may use the signs' named groups.
    """

    signs: re.Pattern[str]
    sentence: str | Callable[[re.Match[str]], str]

    def explain(self, text: str) -> str | None:
        match = self.signs.search(text)
        if match is None:
            return None
        return self.sentence if isinstance(self.sentence, str) else self.sentence(match)


def _no_code(match: re.Match[str]) -> str:
    which = f" ({match['capability']})" if match["capability"] else ""
    return (
        f"This TensorFlow holds no code for the GPU's compute capability{which}, as with Blackwell cards; use NVIDIA's "
        "own TensorFlow container, or a TensorFlow that was built for it."
    )


def _library(match: re.Match[str]) -> str:
    what = match["library"] or match["missing"] or "some of its CUDA libraries"
    return f"TensorFlow could not load {what}; {INSTALL}, and unset LD_LIBRARY_PATH if it points to another CUDA."


CAUSES = (
    Cause(  # tensorflow 44869, 62494; an empty string hides as much as -1
        re.compile(r"hides all GPUs from CUDA|CUDA_VISIBLE_DEVICES=\"(-1)?\""),
        "CUDA_VISIBLE_DEVICES hides every GPU; unset it, or set it to the number of the GPU, such as 0.",
    ),
    Cause(  # NVIDIA/nvidia-docker 1294, TensorRT-LLM 1806; tensorflow 44869
        re.compile(
            r"does not match DSO version|[Dd]river/library version mismatch|SYSTEM_DRIVER_MISMATCH"
            r"|COMPAT_NOT_SUPPORTED_ON_DEVICE|forward compatibility was attempted"
        ),
        "NVIDIA's driver and the libraries that belong to it are of different versions, as after an update; restart "
        "the machine, and give a container no compatibility libraries of its own.",
    ),
    Cause(  # ComfyUI-Molmo 26, candle 1846; before INVALID_HANDLE, which follows it
        re.compile(r"driver version is insufficient|UNSUPPORTED_PTX_VERSION|unsupported toolchain|INSUFFICIENT_DRIVER"),
        "NVIDIA's driver is older than TensorFlow's CUDA 12 needs; install the newest driver for this GPU.",
    ),
    Cause(  # tensorflow 97387, 99592, 101746, 60530, 46449
        re.compile(
            r"compatible with compute capability (?P<capability>[\d.]+\d)|INVALID_PTX|NO_BINARY_FOR_GPU"
            r"|no kernel image is available|CUDA_ERROR_INVALID_HANDLE"
        ),
        _no_code,
    ),
    Cause(
        re.compile(
            r"[Cc]ompute capability (?P<has>[\d.]+\d)\. The minimum required Cuda capability is (?P<needs>[\d.]+\d)"
        ),
        lambda match: (
            f"The GPU's compute capability is {match['has']} and TensorFlow needs {match['needs']}; "
            "measure on the CPU, or on a newer GPU."
        ),
    ),
    Cause(
        re.compile(r"Ignoring visible gpu device.*The minimum required count is (?P<needs>\d+)"),
        lambda match: (
            f"TensorFlow leaves this GPU out because it has fewer than {match['needs']} multiprocessors; set "
            "TF_MIN_GPU_MULTIPROCESSOR_COUNT to what it has."
        ),
    ),
    Cause(  # colabtools 2170 and DeepFaceLab_Linux 89, vllm 5222
        re.compile(r"ECC_UNCORRECTABLE|uncorrectable ECC"),
        "The GPU's memory made an error that it could not correct (ECC); restart the machine, and have the card "
        "checked if it comes again.",
    ),
    Cause(  # proteneer/timemachine 1203
        re.compile(r"fallen off the bus|GPU is lost|CUDA_ERROR_DEVICE_LOST|\bXid\b"),
        "The driver lost the GPU (“dmesg” shows an Xid error); restart the machine, check the card's power and heat.",
    ),
    Cause(  # gpustack 1254
        re.compile(r"SYSTEM_NOT_READY|system not yet initialized"),
        "The GPUs wait for NVIDIA's fabric manager; start it with “systemctl start nvidia-fabricmanager”.",
    ),
    Cause(  # DIGITS 2005, tensorflow 526, 48558
        re.compile(r"busy or unavailable|CUDA_ERROR_DEVICE_UNAVAILABLE"),
        "The GPU lets no further process in: another program has it and its compute mode is exclusive; end that "
        "program, or allow several with “sudo nvidia-smi --compute-mode=0”.",
    ),
    Cause(  # tensorflow 47530, 45423
        re.compile(
            r"Loaded runtime CuDNN library: (?P<has>[\d.]*\d) but source was compiled with: (?P<needs>[\d.]*\d)"
        ),
        lambda match: (
            f"cuDNN {match['has']} was loaded and TensorFlow needs {match['needs']}; {INSTALL}, and unset "
            "LD_LIBRARY_PATH if it points to another cuDNN."
        ),
    ),
    Cause(  # NVIDIA/tensorflow 110, tensorflow 34287, 110956
        re.compile(
            r"Could not load dynamic library '(?P<library>lib\w+)|Cannot dlopen some GPU"
            r"|(?P<missing>lib(?:cu|nv)\w+)\.so[\d.]*: cannot open shared object file"
        ),
        _library,
    ),
    Cause(  # tensorflow 44637, NVIDIA/nccl 290, pytorch/torchtitan 853; NVIDIA's guide to NCCL, troubleshooting
        re.compile(r"NCCL[^\n]*unhandled system error|/dev/shm/nccl|Call to posix_fallocate failed"),
        "NCCL, which exchanges gradients among GPUs, got too little shared memory; give the container “--shm-size=1g "
        "--ulimit memlock=-1”, or look with NCCL_DEBUG=WARN at what failed.",
    ),
    Cause(  # tensorflow 12237, 7272, 14475, 60713: its start needs memory, too
        re.compile(
            r"CUDA_ERROR_OUT_OF_MEMORY|failed to allocate .*from device|STATUS_ALLOC_FAILED"
            r"|(CUBLAS|CUDNN)_STATUS_NOT_INITIALIZED|failed to create cublas handle|Could not create cudnn handle"
        ),
        "The GPU's memory is taken by another program; end it, “nvidia-smi” lists who holds memory.",
    ),
    Cause(  # tensorflow 25866, 46247, 41891
        re.compile(r"ILLEGAL_ADDRESS|illegal memory access|LAUNCH_FAILED|unspecified launch failure|Unexpected Event"),
        "A kernel failed on the GPU, after which CUDA refuses all further work of the process; if it comes again, "
        "update NVIDIA's driver and have the card checked.",
    ),
    Cause(  # what libcuda's stub returns without a driver, seen with TensorFlow 2.21
        re.compile(r"UNKNOWN ERROR \(303\)|SHARED_OBJECT_INIT_FAILED|kernel driver does not appear to be running"),
        f"No NVIDIA driver is here; install it {NVIDIA_SMI} (a container needs “--gpus all”), then {INSTALL}.",
    ),
    Cause(  # tensorflow 62494, 16860, 40920
        re.compile(r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device|CUDA_ERROR_INVALID_DEVICE"),
        f"The driver shows this process no GPU; see to it {NVIDIA_SMI} here (a container needs “--gpus all”).",
    ),
    Cause(  # tensorflow 7653
        re.compile(r"cuInit.*CUDA_ERROR_UNKNOWN"),
        "CUDA cannot start although a driver is here, as after the machine slept; restart the machine, or reload the "
        "module nvidia_uvm.",
    ),
    Cause(  # tensorflow 62994: logged if the CUDA runtime is not found, whatever the driver
        re.compile(r"Could not find cuda drivers"),
        f"TensorFlow found no CUDA libraries; {INSTALL}.",
    ),
    Cause(  # our own words, if nothing above matched
        re.compile(r"(TensorFlow|JAX|PyTorch) found no GPU"),
        f"A GPU needs NVIDIA's driver and {WITH_GPU}, on Linux or WSL2.",
    ),
)
"""The first match counts: the most specific causes stand first."""


def explain_gpu(texts: str | Iterable[str], framework: str = "tensorflow") -> str | None:
    """Return one sentence for the user with the remedy; None if no known cause matches.

    ``texts`` is an error's text or the lines of a log (TensorFlow's at level 0, since it logs some causes as
    information only). ``framework`` is the one that wrote it.
    """
    text = texts if isinstance(texts, str) else "\n".join(texts)
    sentence = next((sentence for cause in CAUSES if (sentence := cause.explain(text)) is not None), None)
    if sentence is None or framework == "tensorflow":
        return sentence
    known = FRAMEWORKS[framework]
    install = f"{known.title} for CUDA (see {known.requirements})"
    return sentence.replace(INSTALL, f"install {install}").replace(WITH_GPU, install).replace("TensorFlow", known.title)
