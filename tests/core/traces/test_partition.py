"""The detection and division of steps, on traces with a known truth."""

from pathlib import Path

import pytest

from core.traces.record import DeviceTrace, StepParts
from simulated.traces import MadeTrace, gpu_trace


def parts_us(step: StepParts) -> dict[str, float]:
    """Return the nonzero parts in microseconds."""
    found = {name.removesuffix("_ms"): round(value * 1000, 6) for name, value in step.model_dump().items()}
    return {name: value for name, value in found.items() if value}


def only(made: MadeTrace, folder: Path) -> DeviceTrace:
    (device,) = made.report(folder).devices
    return device


def test_a_gpus_steps_run_from_launched_work_to_launched_work(tmp_path: Path) -> None:
    device = only(gpu_trace(), tmp_path)
    assert (device.device, device.steps_from, device.kernels) == ("GPU:0", "host steps", 4)
    first, second = (parts_us(step) for step in device.steps)
    assert first == {
        "step": 100, "compute": 60, "h2d": 10, "d2h": 5, "input": 10, "launch": 10, "other": 5
    }  # fmt: skip
    assert second == {"step": 75, "compute": 60, "h2d": 10, "d2h": 5}
    assert (device.busy_ms, device.span_ms) == pytest.approx((0.120, 0.175))
    assert device.mean().overhead_share == pytest.approx(1 - 60 / 87.5)


def test_without_ids_the_steps_begin_with_the_first_event_after_the_host_steps(tmp_path: Path) -> None:
    made = gpu_trace()
    for plane in made.space.planes:
        for stat in plane.stat_metadata.values():
            stat.name = stat.name.replace(b"correlation_id", b"unknown")
    found = made.report(tmp_path)
    (device,) = found.devices
    # the copy back of the first step, at 120, is the first event that starts after the second host step did
    assert [step.step_ms * 1000 for step in device.steps] == pytest.approx([70, 105])
    assert any("carry no ids" in note for note in found.notes)
    assert any("on the host" in note for note in found.notes)
    assert found.host_ops == ()


def test_steps_are_the_traces_own_or_the_whole_trace(tmp_path: Path) -> None:
    made = gpu_trace()
    gpu = made.space.planes[2]
    line = gpu.lines.add(id=99, name=b"Steps")
    line.events.add(offset_ps=60_000_000, duration_ps=40_000_000)
    line.events.add(offset_ps=90_000_000, duration_ps=30_000_000)  # overlaps: begins where the one before ends
    device = only(made, tmp_path)
    assert device.steps_from == "steps line"
    assert [parts_us(step) for step in device.steps] == [{"step": 40, "compute": 40}, {"step": 20, "compute": 20}]
    made = MadeTrace()
    made.plane("/device:GPU:0").line("Stream #1(Kernel)").event("gemm", 10, 5).event("Memset", 20, 2).event(
        "gemm", 30, 5
    )
    found = made.report(tmp_path)
    (device,) = found.devices
    assert (device.steps_from, device.kernels) == ("whole trace", 3)
    assert parts_us(device.steps[0]) == {"step": 25, "compute": 12, "other": 13}
    assert any("Nothing marks steps" in note for note in found.notes)


def test_a_host_step_that_launched_nothing_belongs_to_the_step_before(tmp_path: Path) -> None:
    made = MadeTrace()
    python, stream = made.plane("/host:CPU").line("python"), made.plane("/device:GPU:0").line("Stream #1")
    for step, ids in enumerate(((1, 2), (), (3,))):
        python.event("train", 100 * step, 90, step_num=step)
        for number in ids:
            python.event("cuLaunchKernel", 100 * step + number, 1, correlation_id=number)
            stream.event("gemm", 100 * step + 50 + number, 1, correlation_id=number)
    python.event("cuLaunchKernel", 400, 1, correlation_id=9)  # after the last step: none of its work
    stream.event("gemm", 420, 10, correlation_id=9)
    found = made.report(tmp_path)
    assert [step.step_ms * 1000 for step in found.devices[0].steps] == pytest.approx([202, 1])
    assert found.devices[0].kernels == 3
    assert any(note.startswith("1 annotated step") for note in found.notes)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("MemcpyH2D", "h2d"),
        ("MEMCPYHtoD", "h2d"),
        ("MemcpyD2H", "d2h"),
        ("MemcpyD2D", "d2d"),
        ("MemcpyP2P", "d2d"),
        ("MemcpyOther", "other"),
        ("Memset", "compute"),
        ("ncclDevKernel_AllReduce_Sum_f32", "compute"),
        ("ampere_sgemm_128x64_nn", "compute"),
    ],
)
def test_device_events_are_told_apart_by_name(tmp_path: Path, name: str, part: str) -> None:
    made = MadeTrace()
    stream = made.plane("/device:GPU:0").line("Stream #1(Compute,MemcpyH2D)")
    stream.event("gemm", 0, 1).event(name, 1, 4).event("gemm", 5, 1)
    expected = {"step": 6.0, "compute": 2.0}
    assert parts_us(only(made, tmp_path).steps[0]) == expected | {part: expected.get(part, 0) + 4}


def test_what_is_not_the_steps_own_host_work_is_no_launch(tmp_path: Path) -> None:
    """Check the annotation, what encloses it, the threads that prepare data, waiting, and derived lines."""
    made = MadeTrace()
    host, device = made.plane("/host:CPU"), made.plane("/device:GPU:0")
    python = host.line("python").event("fit", 0, 100).event("train", 10, 80, step_num=0)
    python.event("EagerExecute", 12, 60).event("cuLaunchKernel", 12, 1, correlation_id=1)
    python.event("cuLaunchKernel", 14, 1, correlation_id=2).event("cuCtxSynchronize", 30, 40)
    producer = host.line("tf_data_iterator_resource/5")
    producer.event("Iterator::Root::Prefetch::Map", 0, 100).event("Work", 0, 100)
    host.line("tf_data_private_threadpool/6").event("add:AddV2", 0, 100)
    stream = device.line("Stream #1(Compute)")
    stream.event("gemm", 20, 5, correlation_id=1).event("gemm", 80, 5, correlation_id=2)
    device.line("XLA Ops").event("fusion", 0, 100)
    assert parts_us(only(made, tmp_path).steps[0]) == {"step": 65, "compute": 10, "launch": 7, "other": 48}


@pytest.mark.parametrize(
    "name",
    [
        "IteratorGetNextOp::DoCompute",
        "IteratorGetNextAsOptionalOp::DoCompute",
        "IteratorGetNext:IteratorGetNext",
        "cond/IteratorGetNextAsOptional_3:IteratorGetNextAsOptional",
        "MultiDeviceIteratorGetNextFromShard:MultiDeviceIteratorGetNextFromShard",
        "EagerLocalExecute: IteratorGetNext",
        "Iterator::Root::Prefetch",
    ],
)
def test_taking_the_next_element_is_input(tmp_path: Path, name: str) -> None:
    made = MadeTrace()
    made.plane("/host:CPU").line("tf_data_iterator_get_next/3").event(name, 0, 8).event("PrefetchConsume", 0, 12)
    made.plane("/device:GPU:0").line("Stream #1").event("gemm", 0, 2).event("gemm", 18, 2)
    expected = {"step": 20, "compute": 4, "input": 6, "launch": 4, "other": 6}
    assert parts_us(only(made, tmp_path).steps[0]) == expected


def cpu_trace() -> MadeTrace:
    made = MadeTrace()
    host = made.plane("/host:CPU")
    python = host.line("python")
    python.event("train", 0, 100, step_num=0).event("train", 120, 80, step_num=1)
    python.event("FunctionRun", 5, 90)
    pool = host.line("tf_Compute/1")
    pool.event("ExecutorState::Process", 10, 70).event("dense/MatMul:_MklFusedMatMul", 20, 30)
    pool.event("dense/ReadVariableOp:ReadVariableOp", 52, 4).event(
        "StatefulPartitionedCall:StatefulPartitionedCall", 15, 60
    )
    host.line("tf_Compute/2").event("dense/Relu:Relu", 40, 20).event("Adam/Sub:Sub", 130, 10)
    host.line("tf_data_iterator_get_next/3").event("IteratorGetNextOp::DoCompute", 0, 25)
    host.line("tf_data_private_threadpool/4").event("map/Mul:Mul", 0, 200)
    return made


def test_the_cpus_steps_are_operations_input_and_framework_also_beside_a_gpu_that_only_copied(tmp_path: Path) -> None:
    device = only(cpu_trace(), tmp_path)
    assert (device.device, device.steps_from, device.kernels) == ("CPU", "host steps", 3)
    first, second = (parts_us(step) for step in device.steps)
    assert first == {"step": 120, "compute": 40, "input": 20, "launch": 60}
    assert second == {"step": 80, "compute": 10, "launch": 70}
    made = cpu_trace()
    made.plane("/device:GPU:0").line("Stream #1(MemcpyH2D)").event("MemcpyH2D", 0, 5)
    found = made.report(tmp_path)
    assert [device.device for device in found.devices] == ["CPU"]
    assert "only 1 copy" in found.notes[0]


def test_an_xla_operation_that_others_finish_lasts_until_its_end_event(tmp_path: Path) -> None:
    made = MadeTrace()
    host = made.plane("/host:CPU")
    host.line("python").event("train", 0, 100, step_num=0).event("train", 100, 50, step_num=1)
    pool = host.line("tf_numa_-1_Eigen/1").event("ThunkExecutor::Execute", 5, 40)
    pool.event("MatMul.1", 10, 20, hlo_op="MatMul.1", _p=77).event("fusion", 32, 4, hlo_op="fusion", _p=78)
    pool.event("end: fusion", 36, 1, _c=78)
    host.line("tf_numa_-1_Eigen/2").event("end: MatMul.1", 60, 1, _c=77)
    pool.event("MatMul.1", 110, 20, hlo_op="MatMul.1", _p=77)  # the same id again, and no end in the trace
    device = only(made, tmp_path)
    assert [parts_us(step) for step in device.steps] == [
        {"step": 100, "compute": 50, "launch": 50},
        {"step": 50, "compute": 20, "launch": 30},
    ]
    assert device.kernels == 3


def test_eager_operations_last_as_long_as_their_kernels_run(tmp_path: Path) -> None:
    made = MadeTrace()
    python = made.plane("/host:CPU").line("python").event("train", 0, 100, step_num=0)
    for name, at in (("MatMul", 10), ("ReadVariableOp", 30), ("__inference_f_12", 50), ("Mul", 70)):
        python.event(f"EagerLocalExecute: {name}", at, 12).event("KernelAndDeviceFunc::Run", at + 4, 6)
    python.event("y/Mul:Mul", 76, 2)  # this one is traced itself
    found = made.report(tmp_path)
    (device,) = found.devices
    assert parts_us(device.steps[0]) == {"step": 100, "compute": 8, "launch": 92}
    assert {kernel.name: kernel.count for kernel in device.top} == {"MatMul": 1, "y/Mul:Mul": 1}
    assert any("Eager operations" in note for note in found.notes)
