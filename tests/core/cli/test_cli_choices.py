"""The flags of ``sweep``: the plans that they make, and refusals before anything runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.workload.spec import Pipeline
from simulated.commands import TARGETS, Command, refused
from simulated.runs import make_run
from simulated.simulation import Machine


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--targets", "cpu", "cpu"), "choose targets that differ"),
        (("--targets", "cpu", "tpu"), "tpu"),
        (("--targets", "cpu,threads=0", "cpu"), "threads"),
        (("--targets", *(f"cpu,threads={n}" for n in range(1, 8))), "targets"),
        (("--batches", "8:1"), "8 to 1 is not possible"),
        (("--batches", "0:70000"), "65,536"),
        (("--batches", "many"), "1:1024"),
        (("--budget", "0"), "between 2 and 86,400 seconds"),
        (("--budget", "nan"), "between 2 and 86,400 seconds"),
        (("--preset", "lots"), "lots"),
        (("--preset", "784-128-10", "--depth", "3"), "--depth"),
        (("--depth", "65"), "64"),
        (("--width", "1"), "hidden"),
        (("--mode", "dream"), "train"),
        (("--prefetch", "2"), "tfdata"),
        (("--pipeline", "tfdata", "--prefetch", "some"), "--prefetch"),
        (("--pipeline", "tfdata", "--data", "/nowhere/train.npz"), "There is nothing at /nowhere/train.npz"),
        (("--pipeline", "tfdata", "--data", "https://example.org/x.npy"), "path on this machine"),
        (("--width", "16384", "--depth", "64", "--batches", "65536"), "GB"),
        (("--out", "/nowhere/run.json"), "cannot be written"),
        (("--plan", "/nowhere.json"), "cannot be read"),
        (("--surprise",), "--surprise"),
    ],
)
def test_bad_choices_are_refused_before_anything_runs(
    cli: Command, machine: Machine, arguments: tuple[str, ...], words: str
) -> None:
    status, out, err = cli("sweep", *arguments)
    assert (status, out) == (2, "")
    assert words in err.splitlines()[-1]
    assert machine.starts == 0


def planned(cli: Command, tmp_path: Path, *arguments: str) -> SweepPlan:
    out = tmp_path / "planned.json"
    assert cli("sweep", "--budget", "10", "--no-store", "--out", out, *arguments)[0] == 0
    plan = Run.from_json(out.read_bytes()).plan
    assert plan is not None
    return plan


@pytest.mark.usefixtures("machine")
def test_flags_reach_the_plan(cli: Command, tmp_path: Path) -> None:
    plan = planned(
        cli, tmp_path, "--batches", "1,8", *TARGETS, "--depth", "3", "--width", "64", "--inputs", "20",
        "--classes", "1", "--optimizer", "sgd", "--step-width", "0.2", "--crossover-width", "0.5", "--margin", "0.1",
        "--no-refine", "--pipeline", "tfdata", "--prefetch", "auto", "--parallel-calls", "2", "--cache", "--shuffle",
        "--preprocess-us", "5", "--preprocess-python",
    )  # fmt: skip
    assert plan.workload.network.name == "20-64-64-64-1"
    assert (plan.workload.optimizer, plan.refine, plan.batches) == ("sgd", False, (1, 8))
    assert (plan.step_width, plan.crossover_width, plan.margin, plan.budget_s) == (0.2, 0.5, 0.1, 10)
    chosen = {"prefetch": "auto", "parallel_calls": 2, "preprocess_us": 5}
    assert plan.pipeline == Pipeline(kind="tfdata", cache=True, shuffle=True, preprocess_python=True, **chosen)
    assert plan.trace
    assert planned(cli, tmp_path, "--pipeline", "tfdata", "--prefetch", "off", *TARGETS).pipeline.prefetch == 0


@pytest.mark.usefixtures("machine")
def test_traces_can_be_left_out(cli: Command, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    assert cli("sweep", "--budget", "40", "--no-store", "--out", out, *TARGETS, "--no-trace")[0] == 0
    run = Run.from_json(out.read_bytes())
    assert (run.plan.trace, run.traces) == (False, ())


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write ten samples of 20 values to a file in the working directory."""
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.zeros((10, 20), np.float32), y=np.zeros(10, np.int64))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.usefixtures("machine")
def test_own_data_are_kept_as_an_absolute_path(cli: Command, tmp_path: Path, samples: Path) -> None:
    plan = planned(cli, tmp_path, *TARGETS, "--pipeline", "tfdata", "--preset", "20-8-4", "--data", samples.name)
    assert plan.pipeline.data == str(samples)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pipeline", "tfdata", "--preset", "30-8-4"), "20 values per sample; the network takes 30"),
        (("--preset", "20-8-4"), "tfdata pipeline only"),
    ],
    ids=["wrong size", "wrong pipeline"],
)
def test_data_that_cannot_be_used_are_refused(
    cli: Command, machine: Machine, samples: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(cli("sweep", *TARGETS, *arguments, "--data", str(samples)))
    assert machine.starts == 0


@pytest.mark.usefixtures("machine")
def test_targets_may_stand_anywhere(cli: Command, tmp_path: Path) -> None:
    for order in ((*TARGETS, "--mode", "infer"), ("--mode", "infer", *TARGETS)):
        plan = planned(cli, tmp_path, *order)
        assert (plan.target_names, plan.workload.mode) == (TARGETS[1:], "infer")


@pytest.mark.usefixtures("machine")
def test_a_plan_file_holds_all_choices(cli: Command, tmp_path: Path) -> None:
    plan = make_run().plan
    path, out = tmp_path / "plan.json", tmp_path / "run.json"
    path.write_text(plan.model_dump_json())
    assert cli("sweep", "--plan", path, "--out", out)[0] == 0
    assert Run.from_json(out.read_bytes()).plan == plan
    assert "leave out --budget" in refused(cli("sweep", "--plan", path, "--budget", "9"))
    path.write_text(json.dumps(json.loads(plan.model_dump_json()) | {"surprise": 1}))
    assert "surprise" in refused(cli("sweep", "--plan", path))
    path.write_text(json.dumps(json.loads(plan.model_dump_json()) | {"schema_version": 2}))
    assert "schema_version" in refused(cli("sweep", "--plan", path))
    path.write_text("[" * 100_000)
    assert "no plan" in refused(cli("sweep", "--plan", path))
