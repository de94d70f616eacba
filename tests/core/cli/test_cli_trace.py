"""``trace``: exit status, stdout, one sentence on stderr."""

from pathlib import Path
from typing import Any

import pytest

from core.machine.environment import capture_environment
from core.rounds.run import Run
from core.rounds.show.imports import read_run
from core.store import Store
from simulated.commands import Command, as_json, holds, refused
from simulated.runs import make_run
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
    holds(lines[0], "made.xplane.pb: ", "recorded")
    holds(next(line for line in lines if line.startswith("GPU:0")), "2 steps", "4 kernels", "31.4 %")
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
    holds(out, "lost 7 events", "7 events dropped")
    assert as_json(cli("trace", path, "--json"))["dropped_events"] == 7


def test_a_cpu_has_no_copies_to_show(cli: Command, tmp_path: Path) -> None:
    made = MadeTrace()
    made.plane("/host:CPU").line("python").event("train", 0, 10, step_num=0).event("x/MatMul:MatMul", 2, 4)
    _, out, _ = cli("trace", made.write(tmp_path))
    holds(out, "framework between operations", "CPU: 1 step", "1 operation", "60.0 %")
    assert "copy to" not in out


def test_a_profilers_folder_stands_for_the_trace_in_it(cli: Command, tmp_path: Path) -> None:
    folder = tmp_path / "log/plugins/profile/2026_01_01"
    folder.mkdir(parents=True)
    gpu_trace().write(folder, "vm.xplane.pb")
    assert as_json(cli("trace", tmp_path / "log", "--json"))["file"] == "vm.xplane.pb"
    gpu_trace().write(folder, "other.xplane.pb")
    holds(refused(cli("trace", tmp_path / "log")), "2 traces", "plugins/profile/2026_01_01/other.xplane.pb, ")


@pytest.mark.parametrize("name", ["none", "empty", "text.json"])
def test_what_is_no_trace_is_refused_with_one_sentence(cli: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/events.out.tfevents").write_text("x")
    (tmp_path / "text.json").write_text("{}")
    words = {"none": "does not exist", "empty": "there is events.out.tfevents", "text.json": "no list of traceEvents"}
    assert words[name] in refused(cli("trace", tmp_path / name))


def run_here(**changes: Any) -> Run:
    """Return a run as measured on this machine."""
    run = make_run(label="measured").model_copy(update={"environment": capture_environment()})
    return run.model_copy(update=changes)


def stored(run: Run) -> Run:
    store = Store()
    store.begin(run.model_copy(update={"rounds": (), "cells": ()}))
    store.record(run.id, run.rounds)
    store.finish(run.id, "finished", run.elapsed_s)
    return store.load(run.id)


@pytest.mark.usefixtures("machine")
def test_a_stored_run_is_traced_by_its_id_and_keeps_the_trace(cli: Command) -> None:
    run = stored(run_here())
    status, out, err = cli("trace", run.id)
    assert status == 0, err
    (cell,) = Store().load(run.id).traces
    assert (cell.target, cell.batch) == (1, 32)  # the last target, the middle batch
    holds(out, "at batch 32: ", "measured", "the profiler", "1.1×")
    data = as_json(cli("trace", run.id, "--target", run.target_names[0], "--batch", 8, "--json"))
    assert (data["run"], data["target"], data["batch"]) == (run.id, run.target_names[0], 8)
    assert data["profiled_step_ms"] > data["unprofiled_step_ms"]
    assert data["trusted"]
    assert data["devices"][0]["steps"][0]["compute_ms"] > 0
    assert len(Store().load(run.id).traces) == 2
    cli("trace", run.id, "--batch", 32)
    assert len(Store().load(run.id).traces) == 2  # the new trace of a cell replaces the one before


@pytest.mark.usefixtures("machine")
def test_a_run_in_a_file_is_written_with_its_trace(cli: Command, tmp_path: Path) -> None:
    file, out = tmp_path / "run.json", tmp_path / "traced.json"
    file.write_text(run_here().to_json())
    status, _, err = cli("trace", file, "--batch", 64, "--out", out)
    assert status == 0, err
    holds(err, "not kept", "Wrote")
    (cell,) = read_run(out.read_bytes(), out.name).traces
    assert cell.batch == 64
    assert not Store().summaries()


@pytest.mark.usefixtures("machine")
def test_a_file_of_a_stored_run_names_it(cli: Command, tmp_path: Path) -> None:
    run = stored(run_here())
    file = tmp_path / "run.json"
    file.write_text(run.to_json())
    assert cli("trace", file, "--no-store")[0] == 0
    assert not Store().load(run.id).traces
    assert cli("trace", file)[0] == 0
    assert len(Store().load(run.id).traces) == 1


@pytest.mark.parametrize(
    ("changes", "flags", "words"),
    [
        ({"label": "recorded"}, (), "this run is recorded"),
        ({"environment": None}, (), "measured on another machine"),
        ({"plan": None}, (), "Without its plan"),
        ({}, ("--batch", 7), "Batch 7 was not measured"),
        ({}, ("--target", "gpu:9"), "no target of this run"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    cli: Command, tmp_path: Path, changes: dict[str, Any], flags: tuple[Any, ...], words: str
) -> None:
    file = tmp_path / "run.json"
    file.write_text(run_here(**changes).to_json())
    assert words in refused(cli("trace", file, *flags))


def test_flags_of_a_run_are_refused_for_a_trace_file_and_an_unknown_id_is_said(cli: Command, tmp_path: Path) -> None:
    assert "for a run" in refused(cli("trace", gpu_trace().write(tmp_path), "--batch", 8))
    assert "does not exist" in refused(cli("trace", "20260101-abcdef"))
