"""Errors that TensorFlow raises on a GPU, and their effect: an outcome of the cell, or the end of the worker."""

from __future__ import annotations

import pytest

from core.worker.protocol import CellFailed, Hello, WorkerError, WorkerLost
from core.workload.spec import Pipeline, Target

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", autouse=True)
def load_tensorflow() -> None:
    """Import TensorFlow only now, so that collecting the tests does not load it."""
    global tf, worker, PeakMeter, GpuAllocator
    import tensorflow as tf

    from core.worker.memory import PeakMeter
    from core.worker.tensorflow import engine as worker
    from core.worker.tensorflow.devices import GpuAllocator


@pytest.mark.parametrize(
    ("error", "kind", "outcome", "says"),
    [
        ("INTERNAL", WorkerLost, "crashed", "refuses all further work"),
        ("ABORTED", WorkerLost, "crashed", "have the card checked"),
        ("NOT_FOUND", CellFailed, "out_of_memory", "did not fit into memory"),
        ("FAILED_COPY", CellFailed, "out_of_memory", "did not fit into memory"),
        ("NO_CODE", CellFailed, "error", "no code for the GPU's compute capability"),
    ],
)
def test_an_error_of_the_gpu_is_an_outcome_or_the_end_of_the_worker(
    error: str, kind: type[WorkerError], outcome: str, says: str
) -> None:
    raised = {
        "INTERNAL": tf.errors.InternalError(None, None, "Could not synchronize: CUDA_ERROR_ASSERT: device-side assert"),
        "ABORTED": tf.errors.InternalError(None, None, "failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS"),
        "NOT_FOUND": tf.errors.NotFoundError(None, None, "No algorithm worked!  Error messages:"),
        "FAILED_COPY": tf.errors.InternalError(
            None, None, "Failed copying input tensor: Dst tensor is not initialized."
        ),
        "NO_CODE": tf.errors.InternalError(None, None, "'cuLaunchKernel(...)' failed with 'CUDA_ERROR_INVALID_HANDLE'"),
    }[error]
    with (
        pytest.raises(kind) as caught,
        worker.TensorFlowEngine(Hello(target=Target()), worker.Devices(("CPU:0",))).outcomes(Pipeline()),
    ):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.outcome == outcome
    assert says in caught.value.reason


def test_a_gpu_number_beyond_those_there_are_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.tf.config, "list_physical_devices", lambda _kind: ["one"])
    with pytest.raises(CellFailed, match="found 1 GPU"):
        worker.start(Hello(target=Target(device="gpu:1")))


def test_the_peak_of_a_gpu_holds_the_first_call_and_the_steady_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an allocator whose peak falls to the current usage at a reset."""
    seen = {"current": 100, "peak": 900}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _device: seen)
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", lambda _device: seen.update(peak=seen["current"]))
    meter = PeakMeter(GpuAllocator())
    assert (meter.peak_bytes(), meter.steady_bytes()) == (100, None)
    seen["peak"] = 4_000  # cuDNN tries an algorithm with much scratch memory
    meter.first_call_done()
    seen["peak"] = 1_500
    assert (meter.peak_bytes(), meter.steady_bytes()) == (4_000, 1_500)
    seen["peak"] = 5_000
    assert (meter.peak_bytes(), meter.steady_bytes()) == (5_000, 5_000)


def test_on_a_cpu_the_peak_is_one_of_the_whole_preparation() -> None:
    meter = PeakMeter()
    meter.first_call_done()
    assert meter.peak_bytes() > 10**7
    assert meter.steady_bytes() is None
