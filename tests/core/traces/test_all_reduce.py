"""The exchange of gradients in traces of several GPUs, handmade with known truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.traces.events import TraceError
from core.traces.report import all_reduces_ms, exchange_kernels, report
from core.traces.xplane import read
from core.worker.profiling import reply_fields
from simulated.traces import MadeTrace

NAMES = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": True,
    "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)": True,
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": True,
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": True,
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": True,
    "ampere_sgemm_128x64_tn": False,
    "replica_1/nccl/MatMul:MatMul": False,
    "MemcpyP2P": False,
}


def two_gpus(all_reduces_us: tuple[int, int], name: str = next(iter(NAMES))) -> MadeTrace:
    """Return two steps of 100 µs on each of two GPUs: 50 µs of arithmetic, and an exchange on its own stream.

    The exchange begins 10 µs before the arithmetic ends. Its length is the first number on the first GPU, and so on.
    """
    trace = MadeTrace()
    python = trace.plane("/host:CPU").line("python", thread=7)
    calls = trace.plane("/host:CUPTI").line("driver", thread=7)
    for number, length_us in enumerate(all_reduces_us):
        device = trace.plane(f"/device:GPU:{number}")
        compute, exchange = device.line("Stream #1(Compute)"), device.line("Stream #2(Compute)")
        for step in (0, 1):
            ids = [100 * number + 10 * step + offset for offset in (1, 2)]
            calls.event("cuLaunchKernel", 100 * step + 1 + number, 1, correlation_id=ids[0])
            calls.event("cuLaunchKernel", 100 * step + 5 + number, 1, correlation_id=ids[1])
            compute.event("gemm", 100 * step + 10, 50, correlation_id=ids[0])
            exchange.event(name, 100 * step + 50, length_us, correlation_id=ids[1])
    for step in (0, 1):
        python.event("train", 100 * step, 95, step_num=step)
    return trace


def test_kernels_of_nccl_are_known_by_their_names_of_all_versions() -> None:
    assert dict(zip(NAMES, exchange_kernels(tuple(NAMES)).tolist(), strict=True)) == NAMES


def test_each_gpu_has_its_own_exchange_and_the_shortest_is_that_of_the_step(tmp_path: Path) -> None:
    """Let the first GPU wait 20 µs in its kernel for the second one, whose kernel takes 20 µs."""
    found = report(read(two_gpus((40, 20)).write(tmp_path)), None, ("GPU:0", "GPU:1"))
    assert [device.all_reduces_ms for device in found.devices] == [
        pytest.approx((0.040, 0.040)), pytest.approx((0.020, 0.020))
    ]  # fmt: skip
    first = found.devices[0]
    assert first.mean().compute_ms == pytest.approx(0.080), "what overlaps with arithmetic counts once in compute"
    fields = reply_fields(found, 2, 1)
    assert fields["device"].device == "GPU:0"
    assert fields["device"].all_reduce_ms == pytest.approx(0.020)
    assert fields["device"].all_reduce_shares == pytest.approx([0.020 / step.step_ms for step in first.steps])
    assert "steps of GPU:0" in fields["notes"][-1]
    assert reply_fields(found, 2, 4)["device"].all_reduce_ms == pytest.approx(0.005), "a call of four steps has it once"


def test_a_trace_without_such_a_kernel_does_not_tell(tmp_path: Path) -> None:
    found = report(read(two_gpus((40, 20), "AddV2_kernel").write(tmp_path)), None, ("GPU:0", "GPU:1"))
    assert [(device.all_reduce_ms, device.all_reduce_shares) for device in found.devices] == [(None, ())] * 2


def test_a_gpu_of_the_target_without_a_kernel_is_an_error(tmp_path: Path) -> None:
    trace = read(two_gpus((40, 20)).write(tmp_path))
    with pytest.raises(TraceError, match="kernel of GPU:2"):
        report(trace, None, ("GPU:0", "GPU:1", "GPU:2"))
    with pytest.raises(TraceError, match="ran on GPU:1"):
        report(trace, None, ("GPU:0",))


def test_overlapping_exchanges_count_once_and_only_within_the_steps() -> None:
    exchanges = np.array([[0, 30], [20, 50], [90, 140]], dtype=np.int64) * 1_000_000_000
    steps = np.array([[0, 100], [100, 130]], dtype=np.int64) * 1_000_000_000
    assert all_reduces_ms(exchanges, steps) == (60.0, 30.0)
    assert all_reduces_ms(exchanges[:0], steps) == ()


def test_of_logical_cpus_the_operations_of_the_ring_tell(tmp_path: Path) -> None:
    """Check a trace as TensorFlow 2.21 writes it: one operation per device, on its own thread, here 10 to 40 and 30 to
    50 µs into each step of 100 µs.
    """
    trace = MadeTrace()
    host = trace.plane("/host:CPU")
    python, compute = host.line("python", thread=1), host.line("tf_Compute/1", thread=2)
    rings = [host.line(f"collective_ops/{number}", thread=3 + number) for number in (0, 1)]
    for at in (0, 100):
        python.event("train", at, 95, step_num=at // 100)
        compute.event("replica_1/dense/MatMul:MatMul", at + 1, 60)
        rings[0].event("adam/CollectiveReduceV2:CollectiveReduceV2", at + 10, 30)
        rings[1].event("adam/CollectiveReduceV2_1:CollectiveReduceV2", at + 30, 20)
    (device,) = report(read(trace.write(tmp_path)), None, ("CPU",)).devices
    assert device.all_reduces_ms == pytest.approx((0.040, 0.040))
    assert device.mean().compute_ms == pytest.approx(0.060), "it is none of the network's operations"


def test_of_logical_cpus_under_jax_the_operations_of_the_xla_program_tell(tmp_path: Path) -> None:
    """Check a trace as jaxlib 0.10 writes it: each device runs the program on its own thread, here with the all-reduce
    10 to 40 and 30 to 50 µs into each step of 100 µs.
    """
    trace = MadeTrace()
    host = trace.plane("/host:CPU")
    python = host.line("python", thread=1)
    devices = [host.line(f"tf_XLAEigen/{number}", thread=2 + number) for number in (0, 1)]
    for at in (0, 100):
        python.event("train", at, 95, step_num=at // 100)
        for line, begin, length in zip(devices, (10, 30), (30, 20), strict=True):
            line.event("dot.3", at + 1, begin - 1, hlo_op="dot.3")
            line.event("all-reduce.5", at + begin, length, hlo_op="all-reduce.5")
            line.event("all-reduce_fusion", at + begin + length, 5, hlo_op="all-reduce_fusion")
    (device,) = report(read(trace.write(tmp_path)), None, ("CPU",)).devices
    assert device.all_reduces_ms == pytest.approx((0.040, 0.040))
    assert device.mean().compute_ms == pytest.approx(0.039), "to wait for the other device is no arithmetic"
