"""``trace``: exit status, stdout, one sentence on stderr."""

from pathlib import Path

import pytest

from simulated.commands import Command, as_json, holds, refused
from simulated.traces import MadeTrace, gpu_trace


def test_a_trace_as_text(cli: Command, tmp_path: Path) -> None:
    made = gpu_trace()
    long = "void tensorflow::functor::" + "X" * 200
    made.plane("/device:GPU:1").line("Stream #1").event(long, 0, 10)
    made.plane("/host:CPU").line("tf_Compute/1", thread=50).event("emb/Unique:Unique", 50, 6)
    made.plane("/host:CPU").line("python", thread=7).event("f", 30, 9, tf_function_call="traced-xla")
    status, out, err = cli("trace", made.write(tmp_path))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "made.xplane.pb: times of profiled steps, recorded"
    assert "GPU:0: 2 steps (from the steps annotated on the host), 4 kernels, overhead share 31.4 %" in lines
    assert ["compute", "0.06", "68.6", "%"] in [line.split() for line in lines]
    assert ["step", "0.0875", "100.0", "%"] in [line.split() for line in lines]
    assert any(line.startswith("gemm") for line in lines)
    assert not any(long in line for line in lines)
    assert any(line.startswith("emb/Unique") and "fell back" in line and "unknown" in line for line in lines)
    assert any(
        line.startswith("name/AsString") and "expected (string)" in line and line.endswith("8,192") for line in lines
    )
    assert any("traced again once" in line for line in lines)
    assert any(line.startswith("Note: ") for line in lines)


def test_a_trace_as_json_has_exactly_the_promised_keys(cli: Command, tmp_path: Path) -> None:
    data = as_json(cli("trace", gpu_trace().write(tmp_path), "--json"))
    assert list(data) == ["file", "devices", "host_ops", "retraces", "dropped_events", "notes"]
    (device,) = data["devices"]
    assert list(device) == ["device", "steps", "kernels", "busy_ms", "span_ms", "steps_from", "h2d_bytes", "d2h_bytes",
                            "all_reduces_ms", "top_kernels"]  # fmt: skip
    assert (device["h2d_bytes"], device["d2h_bytes"]) == (8192, None)
    step = device["steps"][0]
    parts = ["compute_ms", "h2d_ms", "d2h_ms", "d2d_ms", "input_ms", "launch_ms", "other_ms"]
    assert list(step) == ["step_ms", *parts, "overhead_share"]
    assert sum(step[part] for part in parts) == pytest.approx(step["step_ms"])
    assert step["overhead_share"] == pytest.approx(0.4)
    assert device["top_kernels"][0] == {"name": "gemm", "count": 2, "total_ms": pytest.approx(0.08)}
    assert data["host_ops"][0]["name"] == "name/AsString"
    assert data["file"] == "made.xplane.pb"


def test_what_the_profiler_says_of_its_own_work_is_shown(cli: Command, tmp_path: Path) -> None:
    made = gpu_trace()
    made.space.warnings.append(b"Detected GPU events dropped on host: 7 events dropped because the buffer is full.")
    path = made.write(tmp_path)
    _, out, _ = cli("trace", path)
    said = "Note: The profiler says: Detected GPU events dropped: 7 events dropped because the buffer is full."
    holds(out, "The profiler lost 7 events, so the shares are not to be trusted", said)
    assert as_json(cli("trace", path, "--json"))["dropped_events"] == 7


def test_a_cpu_has_no_copies_to_show(cli: Command, tmp_path: Path) -> None:
    made = MadeTrace()
    made.plane("/host:CPU").line("python").event("train", 0, 10, step_num=0).event("x/MatMul:MatMul", 2, 4)
    _, out, _ = cli("trace", made.write(tmp_path))
    holds(out, "framework between operations",
          "CPU: 1 step (from the steps annotated on the host), 1 operation, overhead share 60.0 %")  # fmt: skip
    assert "copy to" not in out


def test_a_profilers_folder_stands_for_the_trace_in_it(cli: Command, tmp_path: Path) -> None:
    folder = tmp_path / "log/plugins/profile/2026_01_01"
    folder.mkdir(parents=True)
    gpu_trace().write(folder, "vm.xplane.pb")
    assert as_json(cli("trace", tmp_path / "log", "--json"))["file"] == "vm.xplane.pb"
    gpu_trace().write(folder, "other.xplane.pb")
    assert "holds 2 traces: name one of plugins/profile/2026_01_01/other.xplane.pb, " in refused(
        cli("trace", tmp_path / "log")
    )


@pytest.mark.parametrize("name", ["none", "empty", "text.json"])
def test_what_is_no_trace_is_refused_with_one_sentence(cli: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/events.out.tfevents").write_text("x")
    (tmp_path / "text.json").write_text("{}")
    words = {"none": "does not exist", "empty": "there is events.out.tfevents", "text.json": "no list of traceEvents"}
    assert words[name] in refused(cli("trace", tmp_path / name))
