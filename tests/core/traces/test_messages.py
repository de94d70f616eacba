"""The profiler's messages about its own work are read, shown without the machine's name, and never used as numbers."""

from pathlib import Path
from typing import Any

import pytest

from core.traces.events import TraceError
from core.traces.record import TraceReport
from core.traces.report import ONE_BY_ONE, report
from core.traces.xplane import message, read
from simulated.traces import BERT, MadeTrace, gpu_trace, needs_bert

LOST = (
    "Detected GPU events dropped on host: Profiler has collected 20 driver events and 7 device events. 12 events "
    "dropped because Activity Event dropped by Cupti Lib:; 30 events dropped because total device(activity) events "
    "reaches max."
)
ERRORS = {
    "Insufficient privilege to run libcupti (you need root permission).": "lets only administrators trace GPU:0",
    "Failed to load libcupti (is it installed and accessible?)": "CUPTI library was not found, without which GPU:0",
    "No GPU detected.": "The profiler saw no GPU, so GPU:0 cannot be traced",
    "Something new.": "most likely because NVIDIA's CUPTI library is missing",
}


def space(path: Path) -> Any:
    return message("XSpace").FromString(path.read_bytes())


def asked(made: MadeTrace, folder: Path, device: str | None) -> TraceReport:
    return report(read(made.write(folder)), None, () if device is None else (device,))


def without_gpu(made: MadeTrace) -> MadeTrace:
    """Return the trace as a machine without CUPTI records it: the GPU's plane is empty, the driver's calls are
    missing.
    """
    kept = [plane for plane in made.space.planes if plane.name == b"/host:CPU"]
    del made.space.planes[:]
    made.space.planes.extend(kept)
    made.plane("/device:GPU:0").stat_id("clock_rate")
    return made


def test_steps_of_a_gpu_without_its_kernels_are_refused_and_not_taken_for_the_hosts(tmp_path: Path) -> None:
    made = without_gpu(gpu_trace())
    assert asked(made, tmp_path, None).devices[0].device == "CPU"
    with pytest.raises(TraceError, match="no kernel of") as refused:
        asked(made, tmp_path, "GPU:0")
    assert "--cap-add=SYS_ADMIN" in str(refused.value)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(refused.value)


def test_a_compiled_step_without_its_kernels_names_the_same_cause(tmp_path: Path) -> None:
    """Check an XLA program on a GPU, which leaves no operation on the host; the cause is not that no steps ran."""
    made = MadeTrace()
    made.plane("/host:CPU").line("python").event("train", 0, 9, step_num=0).event("XlaLaunch:XlaLaunch", 1, 2)
    with pytest.raises(TraceError, match="CUPTI library"):
        asked(made, tmp_path, "GPU:0")


@pytest.mark.parametrize("error", ERRORS)
def test_the_profilers_own_error_names_the_cause(error: str, tmp_path: Path) -> None:
    made = without_gpu(gpu_trace())
    made.space.errors.append(f"host: {error}".encode())
    with pytest.raises(TraceError) as refused:
        asked(made, tmp_path, "GPU:0")
    said = str(refused.value)
    assert ERRORS[error] in said
    assert "host:" not in said
    assert said.endswith(".")
    assert ("Something new." in said) == (error == "Something new.")


@needs_bert
def test_a_recorded_trace_whose_gpu_planes_are_missing_is_refused(tmp_path: Path) -> None:
    """Check a trace that, taken for the CPU's, had 24.9 ms of compute and 636 ms of launch."""
    whole = space(BERT)
    kept = [plane for plane in whole.planes if not plane.name.startswith(b"/device:")]
    del whole.planes[:]
    whole.planes.extend(kept)
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(whole.SerializeToString())
    assert report(read(path)).devices[0].device == "CPU"
    with pytest.raises(TraceError, match="kernel of GPU:4"):
        report(read(path), None, ("GPU:4",))


@pytest.mark.parametrize("device", ["GPU:1", "CPU"])
def test_kernels_on_another_device_than_asked_are_refused(device: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"traced on {device}"):
        asked(gpu_trace(), tmp_path, device)
    assert asked(gpu_trace(), tmp_path, "GPU:0").devices[0].device == "GPU:0"


@needs_bert
def test_a_recorded_step_on_two_gpus_is_no_step_of_one() -> None:
    with pytest.raises(TraceError, match="traced on GPU:4"):
        report(read(BERT), None, ("GPU:4",))


def test_lost_events_are_counted_once_and_shown_without_the_machines_name(tmp_path: Path) -> None:
    made = gpu_trace()
    assert asked(made, tmp_path, "GPU:0").dropped_events == 0
    made.space.warnings.extend([LOST.encode()] * 2)  # the collector and its caller both write it
    made.space.warnings.append(b"host: A warning\nof another\xff profiler.")
    found = asked(made, tmp_path, "GPU:0")
    assert found.dropped_events == 42
    assert len(found.notes) == 2
    assert found.notes[0].startswith("The profiler says:")
    assert "another\ufffd profiler." in found.notes[1]
    assert "host" not in " ".join(found.notes)


def test_a_trace_that_lost_all_kernels_is_refused_with_that_cause(tmp_path: Path) -> None:
    made = without_gpu(gpu_trace())
    made.space.warnings.append(LOST.encode())
    with pytest.raises(TraceError, match="lost 42 events"):
        asked(made, tmp_path, "GPU:0")


def test_a_machine_without_a_gpu_is_no_matter_of_a_cpus_trace(tmp_path: Path) -> None:
    made = MadeTrace()
    made.plane("/host:CPU").line("python").event("train", 0, 9, step_num=0).event("a/MatMul:MatMul", 1, 2)
    made.space.errors.append(b"host: No GPU detected.")
    assert asked(made, tmp_path, "CPU").notes == ()
    made.space.errors.append(b"host: Insufficient privilege to run libcupti (you need root permission).")
    assert len(asked(made, tmp_path, None).notes) == 1


def test_messages_without_end_are_cut(tmp_path: Path) -> None:
    made = gpu_trace()
    made.space.warnings.extend(f"{index} {'x' * 100_000}".encode() for index in range(100))
    found = asked(made, tmp_path, "GPU:0")
    assert len(found.notes) == 16
    assert max(map(len, found.notes)) < 600


@pytest.mark.parametrize(("launch", "said"), [("cuLaunchKernel", True), ("cuGraphLaunch (CudaGraph:7)", False)])
def test_kernels_of_xla_outside_of_graphs_are_said_to_be_so(launch: str, said: bool, tmp_path: Path) -> None:
    made = MadeTrace()
    made.plane("/host:CPU").line("python").event("train", 0, 9, step_num=0).event(launch, 1, 2, correlation_id=1)
    stream = made.plane("/device:GPU:0").line("Stream #1(Kernel)")
    stream.event("fusion_1", 5, 3, correlation_id=1, hlo_op="fusion.1")
    assert (ONE_BY_ONE in asked(made, tmp_path, "GPU:0").notes) == said
    assert ONE_BY_ONE not in gpu_trace().report(tmp_path).notes
