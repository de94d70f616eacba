"""Sentences on an unusable GPU, from texts as TensorFlow and CUDA write them, taken from public reports."""

from __future__ import annotations

import pytest

from core.worker.gpu_errors import CAUSES, breaks_process, explain_gpu, tells_of_memory

NOWHERE = (  # TensorFlow 2.21 on a machine without a driver
    "I0000 00:00:1795329617.545467   20297 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will "
    "not be used.",
    "E0000 00:00:1795329618.162931   20297 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed "
    "call to cuInit: UNKNOWN ERROR (303)",
)
HIDDEN = (
    "E0000 00:00:1778069192.6 16280 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to "
    "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    'I0000 00:00:1778069192.6 16280 cuda_diagnostics.cc:160] env: CUDA_VISIBLE_DEVICES="-1"',
    "I0000 00:00:1778069192.6 16280 cuda_diagnostics.cc:163] CUDA_VISIBLE_DEVICES is set to -1 - this hides all GPUs "
    "from CUDA",
)
DLOPEN = (
    "W0000 00:00:1772.7 1 gpu_device.cc:2365] Cannot dlopen some GPU libraries. Please make sure the missing libraries "
    "mentioned above are installed properly if you would like to use GPU.",
    "Skipping registering GPU devices...",
)
SOLVER = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load dynamic library "
    "'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot open shared object file: No such file or directory",
    *DLOPEN,
)
BLACKWELL = (
    "W0000 00:00:1753232013.685876   24341 gpu_device.cc:2431] TensorFlow was not built with CUDA kernel binaries "
    "compatible with compute capability 12.0. CUDA kernels will be jit-compiled from PTX, which could take 30 minutes "
    "or longer."
)
NO_PTX = (
    "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] 'cuModuleLoadData(&module, data)' "
    "failed with 'CUDA_ERROR_INVALID_PTX'",
    "W tf_gpu_runtime_wrappers.cc:40] 'cuModuleGetFunction(&function, module, kernel_name)' failed with "
    "'CUDA_ERROR_INVALID_HANDLE'",
)
OLD_PTX = (NO_PTX[0].replace("INVALID_PTX", "UNSUPPORTED_PTX_VERSION"), NO_PTX[1])
RETAIN = (
    "failed initializing StreamExecutor for CUDA device ordinal 0: INTERNAL: failed call to cuDevicePrimaryCtxRetain: "
)


SAID: tuple[tuple[str | tuple[str, ...], tuple[str, ...]], ...] = (
    ("There is no gpu:0: TensorFlow found no GPU, only the CPU.", ("A GPU needs NVIDIA's driver and",)),
    (NOWHERE, ("No NVIDIA driver is here", "nvidia-smi")),
    (NOWHERE[:1], ("found no CUDA libraries", "requirements-gpu.txt")),
    (HIDDEN, ("CUDA_VISIBLE_DEVICES hides every GPU", "unset it")),
    (HIDDEN[:1], ("shows this process no GPU", "--gpus all")),
    (DLOPEN, ("could not load some of its CUDA libraries", "requirements-gpu.txt", "LD_LIBRARY_PATH")),
    (SOLVER, ("could not load libcusolver;",)),
    ("libcudnn.so.9: cannot open shared object file: No such file", ("could not load libcudnn;",)),
    (BLACKWELL, ("compute capability (12.0)", "container")),
    (NO_PTX, ("no code for the GPU's compute capability,", "Blackwell")),
    (OLD_PTX, ("driver is older than TensorFlow's CUDA 12", "newest driver")),
    ("CUDA driver version is insufficient for CUDA runtime version", ("driver is older",)),
    ("Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available", ("no code",)),
    (
        "Ignoring visible gpu device (device: 0, name: GTX 960M, pci bus id: 0000:01:00.0, compute capability: "
        "5.0) with Cuda compute capability 5.0. The minimum required Cuda capability is 6.0.",
        ("capability is 5.0 and TensorFlow needs 6.0;",),
    ),
    (
        "Ignoring visible gpu device (device: 1, name: T400) with core count: 6. The minimum required count is 8. "
        "You can adjust this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT.",
        ("fewer than 8 multiprocessors",),
    ),
    (RETAIN + "CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: 1", ("taken by another program",)),
    ("Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED", ("taken by another program",)),
    (RETAIN + "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", ("could not correct (ECC)",)),
    ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", ("lost the GPU",)),
    (
        "cudaSetDevice() on GPU:0 failed. Status: CUDA-capable device(s) is/are busy or unavailable",
        ("compute mode is exclusive", "--compute-mode=0"),
    ),
    ("CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized", ("fabric manager",)),
    ("kernel version 515.43.4 does not match DSO version 515.48.7 -- cannot find working devices", ("restart",)),
    (
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was attempted on non supported HW",
        ("rest",),
    ),
    (
        "Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.  CuDNN library needs to have "
        "matching major version and equal or higher minor version.",
        ("cuDNN 9.1.0 was loaded and TensorFlow needs 9.3.0;",),
    ),
    ("failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", ("nvidia_uvm",)),
    (
        "Internal:  NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail. [[node NcclAllReduce]]",
        ("--shm-size=1g",),
    ),
    ("include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", ("shared memory",)),
    ("failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", ("A kernel",)),
)


@pytest.mark.parametrize(("said", "words"), SAID)
def test_what_is_wrong_is_one_sentence_with_what_to_do(said: str | tuple[str, ...], words: tuple[str, ...]) -> None:
    sentence = explain_gpu(said)
    assert sentence is not None
    assert all(word in sentence for word in words), sentence
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert len(sentence) < 240


def test_what_is_not_known_is_not_explained() -> None:
    assert explain_gpu("I0000 cpu_feature_guard.cc:227] This TensorFlow binary is optimized") is None
    assert explain_gpu(()) is None


def test_every_cause_is_told_by_something() -> None:
    """Check for dead causes, which an earlier one always hides."""
    told = {explain_gpu(said) for said, _ in SAID}
    texts = ["\n".join([said] if isinstance(said, str) else said) for said, _ in SAID]
    assert all(any(cause.explain(text) in told for text in texts if cause.explain(text)) for cause in CAUSES)


@pytest.mark.parametrize(
    "said",
    [
        "OOM when allocating tensor with shape[1,32,368] and type float on GPU:0 by allocator GPU_0_bfc",
        "failed to allocate 8.41G (9029127168 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "Failed to allocate request for 1.2GiB on device ordinal 0",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
        "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: Dst tensor is not initialized.",
        "NOT_FOUND: No algorithm worked!  Error messages:",
        "No algorithm worked! Profiling failure on CUDNN engine 1: CUDNN_STATUS_EXECUTION_FAILED; 0: "
        "CUDNN_STATUS_ALLOC_FAILED",
        "std::bad_alloc",
    ],
)
def test_memory_that_ran_out_is_told_by_any_of_its_names(said: str) -> None:
    assert tells_of_memory(said)
    assert tells_of_memory(["a line", said])
    assert not breaks_process(said)


@pytest.mark.parametrize(
    "said",
    [
        "No algorithm worked! Error messages: Profiling failure on CUDNN engine 1: CUDNN_STATUS_EXECUTION_FAILED",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.1GiB with freed_by_count=0. The caller indicates "
        "that this is not a failure, but this may mean that there could be performance gains if more memory were.",
        "Shapes (3,) and (4,) are incompatible",
    ],
)
def test_what_is_no_want_of_memory_is_not_taken_for_it(said: str) -> None:
    assert not tells_of_memory(said)


@pytest.mark.parametrize(
    "said",
    [
        "INTERNAL: could not synchronize on CUDA context: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access",
        "INTERNAL: CUDA error: Could not synchronize CUDA stream: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
        "CUDA_ERROR_ASSERT: device-side assert triggered",
        "INTERNAL: Failed to launch CUDA kernel: fusion_3: CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address",
        "F gpu_event_mgr.cc:274] Unexpected Event status: 1",
    ],
)
def test_an_error_that_stays_is_told_from_one_that_passes(said: str) -> None:
    assert breaks_process(said)
    for passing in (*NO_PTX, "CUDA_ERROR_INVALID_VALUE: invalid argument", "Incompatible shapes: [3] vs. [4]"):
        assert not breaks_process(passing)


def test_another_framework_is_named_by_its_own_name() -> None:
    said = "There is no gpu:0: JAX found no GPU."
    assert "requirements-jax.txt" in explain_gpu(said, "jax")
    newest = explain_gpu("CUDA driver version is insufficient for CUDA runtime version", "jax")
    assert newest is not None
    assert "TensorFlow" not in newest
