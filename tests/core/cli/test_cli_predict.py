"""``predict``: JSON of the documented shape, text that says modelled, hosts read and measured, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.hardware.compare import not_modelled
from core.hardware.curve import card_curve
from core.hardware.host import Conditions
from core.hardware.host_record import HostStudy
from core.hardware.host_study import DRIVER_US
from core.machine.environment import capture_environment
from core.networks.families import network_from_name
from core.rounds.run import Run
from core.studies.selfcheck.checks import run_checks
from core.studies.selfcheck.export import self_check_data
from core.workload.spec import Pipeline, Workload
from simulated.commands import Command, as_json, done, holds, refused
from simulated.hosts import cpu_run, host_machine, law, make_host_study
from simulated.keras_files import functional, layer, source, text
from simulated.runs import make_run, on_card, planned
from simulated.selfchecks import GPU, Device
from simulated.simulation import Machine
from tests.support.loops import loop_cost, with_loops

ASKED = ("predict", "--gpu", "A100-80GB-SXM", "--preset", "784-512-512-10")
POINT = ["batch", "step_ms", "low_ms", "high_ms", "limited_by", "samples_per_s"]
BEFORE = {
    "gpu", "label", "points", "withheld", "host", "basis", "corrected_by", "workload", "target", "fed", "settings",
    "crossover",
}  # fmt: skip
"""Keys of --json before it stated host and build."""


@pytest.fixture
def host_file(tmp_path: Path) -> Path:
    path = tmp_path / "host.json"
    study = make_host_study().model_copy(update={"environment": capture_environment()})
    path.write_text(study.to_json())
    return path


def test_json_has_the_promised_shape_and_labels(cli: Command) -> None:
    data = as_json(cli(*ASKED, "--mode", "train", "--batches", "1:4096", "--json"))
    assert list(data)[:3] == ["gpu", "label", "points"]
    assert (data["gpu"], data["label"]) == ("A100-80GB-SXM", "modelled")
    assert [point["batch"] for point in data["points"]] == [2**i for i in range(13)]
    for point in data["points"]:
        assert list(point) == POINT
        assert point["samples_per_s"] == pytest.approx(1000 * point["batch"] / point["step_ms"])
        assert 0 < point["low_ms"] < point["step_ms"] < point["high_ms"]
    times = [point["step_ms"] for point in data["points"]]
    assert times == sorted(times)
    assert (data["host"]["label"], data["crossover"], data["corrected_by"]) == ("assumed", None, None)
    assert data["workload"] == "784-512-512-10 (training, adam)"
    assert set(data) == {*BEFORE, "build", "under_fit", "if_named"}
    assert set(data["host"]) == {"label", "step", "op", "xla_call_us", "source", "kind", "fit"}
    assert (data["build"], data["under_fit"], data["host"]["kind"]) == ("unnamed", False, "unnamed")


@pytest.mark.parametrize("flags", [("--application", "VGG16"), ("--preset", "VGG16")])
def test_a_known_network_needs_no_family_and_each_line_says_rate_and_limit(
    cli: Command, flags: tuple[str, str]
) -> None:
    asked = ("predict", "--gpu", "T4", *flags, "--batches", "32")
    out, _ = done(cli(*asked))
    assert out.splitlines()[0].startswith("Modelled, not measured")
    assert "VGG16" in out.splitlines()[0]
    *_, samples_per_s, limit, label = out.splitlines()[4].split()
    (point,) = as_json(cli(*asked, "--json"))["points"]
    assert float(samples_per_s.replace(",", "")) == pytest.approx(point["samples_per_s"], rel=2e-3)
    assert (limit, label) == (point["limited_by"], "modelled")


def test_a_known_network_named_alone_is_as_keras_applications_makes_it(cli: Command) -> None:
    asked = ("predict", "--gpu", "T4", "--batches", "8")
    alone = done(cli(*asked, "--application", "VGG16"))[0]
    assert alone.splitlines()[0].partition(" (")[0].endswith("VGG16")
    assert done(cli(*asked, "--preset", "VGG16@224:1000"))[0] == alone
    assert done(cli(*asked, "--application", "VGG16", "--image", "224", "--classes", "1000"))[0] == alone
    small = done(cli(*asked, "--application", "VGG16", "--image", "64", "--classes", "10"))[0]
    assert "VGG16@64:10" in small.splitlines()[0]


def test_every_line_with_a_time_stands_under_the_word_modelled(cli: Command) -> None:
    out, _ = done(cli(*ASKED, "--batches", "1,64,4096", "--mode", "infer"))
    lines = out.splitlines()
    assert lines[0].startswith("Modelled, not measured")
    holds(lines[0], "784-512-512-10 (inference)", "A100 80 GB", ": XLA", "float32 (TF32)")
    assert "label" in lines[3]
    assert "samples/s" in lines[3]
    step_ms, samples_per_s = (float(lines[5].split()[at].replace(",", "")) for at in (1, 4))
    assert samples_per_s == pytest.approx(64_000 / step_ms, rel=2e-3)
    assert [line.split()[0] for line in lines[4:7]] == ["1", "64", "4,096"]
    assert all(line.endswith("modelled") for line in lines[4:7])
    assert any(line.startswith("Interval: ") for line in lines)
    assert "predict itself" in lines[1]
    holds(lines[2], "Keras 3 (50", "fused build (50")
    (overhead,) = (line for line in lines if line.startswith("Host overhead"))
    holds(overhead, "is assumed: ", "nobody named")


def test_a_driver_s_name_finds_the_card_and_unknown_ones_get_the_nearest(cli: Command) -> None:
    status, out, _ = cli("predict", "--gpu", "tesla t4", "--preset", "784-128-10", "--batches", "8", "--json")
    assert (status, json.loads(out)["gpu"]) == (0, "T4")
    assert "A100-80GB-SXM" in refused(cli("predict", "--gpu", "A100-80GB-SXN", "--preset", "784-128-10"))


def test_options_of_the_target_change_the_prediction(cli: Command) -> None:
    def step_ms(*flags: str) -> float:
        asked = (*ASKED, "--batches", "8192", "--json", "--implementation", "keras", *flags)
        (point,) = as_json(cli(*asked))["points"]
        return float(point["step_ms"])

    plain = step_ms()
    assert step_ms("--precision", "mixed_float16") != plain
    assert step_ms("--execution", "xla") == plain
    assert plain < step_ms("--execution", "graph") < step_ms("--execution", "eager")
    assert step_ms("--fed") > plain
    assert step_ms("--mode", "infer") < plain


def test_kinds_of_host_builds_and_fit_are_asked_for_and_said(cli: Command) -> None:
    def data(*flags: str) -> Any:
        asked = (*ASKED, "--batches", "1", "--execution", "graph", "--implementation", "keras", "--json")
        return as_json(cli(*asked, *flags))

    def step_ms(*flags: str) -> float:
        return float(data(*flags)["points"][0]["step_ms"])

    assert step_ms("--host", "weak") > step_ms("--host", "desktop") > step_ms("--host", "recent_desktop")
    assert data("--host", "server")["host"]["kind"] == "server"
    under_fit = data("--under-fit", "--host", "desktop")
    assert under_fit["under_fit"] is True
    added_us = 1000 * (under_fit["points"][0]["step_ms"] - step_ms("--host", "desktop"))
    assert added_us == pytest.approx(under_fit["host"]["fit"]["us"])
    assert under_fit["host"]["fit"]["label"] == "assumed"
    out, _ = done(cli(*ASKED, "--batches", "1", "--host", "weak", "--under-fit", "--implementation", "fused"))
    lines = out.splitlines()
    holds(lines[1], "fused build", "host: assumed", "a weak cloud", "what fit ")
    assert any(line.startswith("What fit itself") for line in lines)


def test_the_build_reaches_the_model(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def seen(*args: Any, **named: Any) -> Any:
        asked.append(args[1].conditions)
        return card_curve(*args, **named)

    monkeypatch.setattr("core.cli.predict.card_curve", seen)
    assert as_json(cli(*ASKED, "--batches", "1", "--implementation", "fused", "--json"))["build"] == "fused"
    assert asked == [Conditions(build="fused")]
    assert "graph" in done(cli(*ASKED, "--batches", "1", "--implementation", "fused"))[0].splitlines()[0]


def test_a_kinds_word_wins_over_a_file_of_that_name(
    cli: Command, host_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host_file.parent)
    host_file.rename("weak")
    flags = (*ASKED, "--batches", "1", "--json", "--host")
    assert as_json(cli(*flags, "weak"))["host"]["kind"] == "weak"
    assert as_json(cli(*flags, "./weak"))["host"]["label"] == "measured"
    assert "(weak, desktop, recent_desktop, " in refused(cli(*flags, "strong"))


def test_what_fit_costs_on_a_measured_host_is_from_the_run_where_that_is_of_this_machine(
    cli: Command, tmp_path: Path, host_file: Path
) -> None:
    path = tmp_path / "run.json"
    run = with_loops(cpu_run(lambda batch: 0.05 * batch**0.9, tuple(2**i for i in range(13))), loop_cost(0))
    flags = ("predict", "--gpu", "T4", "--against", path, "--host", host_file, "--batches", "1", "--under-fit")

    def fit_of(run: Run) -> Any:
        path.write_text(run.to_json())
        return as_json(cli(*flags, "--json"))

    here = run.model_copy(update={"environment": capture_environment()})
    assert (elsewhere := fit_of(run))["host"]["fit"]["label"] == "assumed"
    found = fit_of(here)
    assert found["host"]["fit"]["label"] == here.label
    assert run.name in found["host"]["fit"]["source"]
    assert found["crossover"] == elsewhere["crossover"]  # both sides exclude it, whatever it costs
    out, _ = done(cli(*flags))
    assert "without what fit" in out.splitlines()[1]


def test_a_measured_host_is_read_and_one_of_another_machine_is_recorded(cli: Command, host_file: Path) -> None:
    flags = (*ASKED, "--batches", "1", "--execution", "graph", "--json", "--host")
    here = json.loads(cli(*flags, host_file)[1])["host"]
    assert here["label"] == "measured"
    assert here["op"]["us"] == pytest.approx(2.0 + DRIVER_US)
    assert here["step"]["us"] == pytest.approx(300.0)
    host_file.write_text(make_host_study().to_json())
    assert json.loads(cli(*flags, host_file)[1])["host"]["label"] == "recorded"


def test_the_host_is_measured_on_simulated_workers_and_written(cli: Command, machine: Machine, tmp_path: Path) -> None:
    machine.law = law
    machine.startup_s, machine.prepare_s = host_machine().startup_s, host_machine().prepare_s
    out_file = tmp_path / "host.json"
    out, err = done(
        cli(*ASKED, "--batches", "1", "--execution", "graph", "--json", "--measure-host", "--host-out", out_file)
    )
    assert json.loads(out)["host"]["op"]["us"] == pytest.approx(2.0 + DRIVER_US, rel=0.05)
    assert "a worker process" in err
    assert len(HostStudy.from_json(out_file.read_text()).rounds) >= 9


def test_against_a_run_the_crossover_is_printed_first(cli: Command, tmp_path: Path, host_file: Path) -> None:
    path = tmp_path / "run.json"
    run = cpu_run(lambda batch: 0.05 * batch**0.9, tuple(2**i for i in range(13)))
    path.write_text(run.to_json())
    flags = ("predict", "--gpu", "T4", "--against", path, "--host", host_file, "--batches", "1,64")
    out, _ = done(cli(*flags))
    holds(out.splitlines()[0], "T4 is faster", "(1 thread)")
    holds(out, "of 2 settings: ", "64 and 4,096")
    data = json.loads(cli(*flags, "--json")[1])
    crossover = data["crossover"]
    assert (crossover["kind"], crossover["label"]) == ("from", "modelled")
    assert crossover["low"] < crossover["batch"] < crossover["high"]
    assert data["workload"].startswith("784-128-10")
    assert data["fed"] is False
    path.write_text(planned(run, pipeline=Pipeline(kind="host")).to_json())
    assert json.loads(cli(*flags, "--json")[1])["fed"] is True
    assert [point["batch"] for point in data["points"]] == [1, 64]


def test_a_recorded_run_of_the_card_beats_the_model(cli: Command, tmp_path: Path) -> None:
    path, run = tmp_path / "t4.json", on_card(make_run(processes=1, passes=1, rounds_per_pass=7))
    path.write_text(run.to_json())
    flags = ("predict", "--preset", "784-128-10", "--batches", "64,100,2048", "--json", "--recorded", path)
    data = json.loads(cli(*flags, "--gpu", "T4")[1])
    recorded, between, beyond = data["points"]
    assert recorded["label"] == "recorded"
    assert recorded["low_ms"] <= recorded["step_ms"] <= recorded["high_ms"]
    assert list(between) == list(beyond) == POINT
    assert run.id in data["corrected_by"]
    assert "ran on A40" in refused(cli(*flags, "--gpu", "A40"))


def test_a_keras_architecture_and_another_family_work(cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_bytes(text(functional(source(20), layer("Dense", "out", "image", units=10))))
    for flags in (("--architecture", path), ("--preset", "lenet5")):
        data = as_json(cli("predict", "--gpu", "T4", "--batches", "1,32", "--json", *flags))
        assert len(data["points"]) + len(data["withheld"]) == 2
        assert all(one["reason"] for one in data["withheld"])


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--batches", "0"), "Batch 0"),
        (("--batches", "many"), "“many”"),
        (("--host", "/nowhere/host.json"), "/nowhere/host.json"),
        (("--host", "x", "--measure-host"), "leave out --measure-host"),
        (("--host-out", "x"), "give both"),
        (("--against", "/nowhere/run.json"), "/nowhere/run.json"),
        (("--recorded", "/nowhere/run.json"), "/nowhere/run.json"),
    ],
)
def test_what_is_wrong_gets_one_sentence_and_status_2(cli: Command, flags: tuple[object, ...], sentence: str) -> None:
    assert sentence in refused(cli(*ASKED, *flags))


def test_a_self_check_says_what_the_host_costs(cli: Command, tmp_path: Path) -> None:
    path, record = tmp_path / "check.json", Device(GPU).check()
    path.write_text(json.dumps(self_check_data(record, run_checks(record))))
    data = as_json(cli(*ASKED, "--batches", "1", "--host", path, "--json"))
    assert data["host"]["label"] == "recorded"
    without = record.model_copy(update={"host": None})
    path.write_text(json.dumps(self_check_data(without, run_checks(without))))
    assert "was not read" in refused(cli(*ASKED, "--host", path))


def test_a_stranger_for_a_host_study_is_refused(cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "stranger.json"
    path.write_text('{"rounds": 3}')
    assert "Breakeven host study" in refused(cli(*ASKED, "--host", path))


def test_a_run_has_its_own_network(cli: Command, run_file: Path) -> None:
    sentence = refused(cli(*ASKED, "--mode", "infer", "--against", run_file))
    assert "--mode, --preset" in sentence
    status, out, _ = cli("predict", "--gpu", "T4", "--against", run_file, "--batches", "1", "--json")
    assert (status, json.loads(out)["workload"]) == (0, f"{network_from_name('784-128-10').name} (training, adam)")


def test_of_a_recurrent_network_it_is_said_at_once_that_none_is_modelled_and_what_to_run(cli: Command) -> None:
    out, err = done(cli("predict", "--gpu", "T4", "--preset", "lstm-128x1-28x28-10", "--batches", "1,64"))
    workload = Workload(network=network_from_name("lstm-128x1-28x28-10"))
    assert err.startswith(not_modelled(workload))
    assert "lstm-128x1-28x28-10 --compare cpu" in err
    assert "Withheld" in out
    _, err = done(cli("predict", "--gpu", "T4", "--preset", "784-128-10", "--batches", "1,64"))
    assert "not modelled" not in err
