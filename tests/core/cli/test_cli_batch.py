"""The batch command: its output for a run with and without a noise study, prices, and refusals."""

import dataclasses
import json
import threading

import numpy as np
import pytest

from core.cli import batch as module
from core.studies.memory.answer import memory_answer
from core.studies.memory.export import memory_data
from core.studies.memory.record import MemoryPlan, MemoryStudy
from core.studies.noise.record import NoisePlan, NoiseStudy
from core.studies.runner import StudyFailed
from core.worker.process import launch_processes
from core.workload.spec import Target, Workload
from simulated.commands import as_json, done, holds, refused
from simulated.memories import make_probe
from simulated.noises import make_noise_study
from simulated.runs import make_run

PRICES = ("--price", "cpu,threads=1=0.20", "--price", "cpu,threads=2=0.30", "--priced-on", "2026-11-01")


@pytest.fixture
def files(tmp_path):
    run = make_run(1)
    paths = {"run": tmp_path / "run.json", "noise": tmp_path / "noise.json", "data": tmp_path / "mine.npz"}
    paths["run"].write_text(run.to_json(), encoding="utf-8")
    paths["noise"].write_text(make_noise_study(run, parts=64).to_json(), encoding="utf-8")
    np.savez(paths["data"], x=np.zeros((40, 784), np.float32), y=np.arange(40) % 10)
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture
def asked(monkeypatch):
    """Record the plans that would have been measured; each is answered by a simulated study."""
    plans: list[NoisePlan] = []

    def measure(kind, asked, store):
        assert (kind.name, asked.launcher, store) == ("noise", launch_processes, True)
        plans.append(asked.plan)
        return make_noise_study(make_run(1), parts=64).model_copy(update={"plan": asked.plan})

    monkeypatch.setattr(module, "measured_part", measure)
    return plans


def test_without_a_noise_study_it_is_throughput_and_says_so(cli, files):
    out, _ = done(cli("batch", files["run"]))
    assert out.startswith("Most samples per")
    holds(out, "batch 1,024", "has not been", "no signal")
    assert "to the loss" not in out


def test_with_one_the_time_to_the_loss_comes_first(cli, files):
    out, _ = done(cli("batch", files["run"], "--noise", files["noise"], *PRICES, "--epoch-samples", "60000"))
    assert out.startswith("Predicted, fastest")
    holds(out, "loss of 1.2", "a teacher network", "from batch 44", "per epoch", "at 0.2 USD", "(2026-11-01)")


def test_json_holds_what_it_says_and_the_record(cli, files, tmp_path):
    path = tmp_path / "out.json"
    status, out, err = cli("batch", files["run"], "--noise", files["noise"], *PRICES, "--json", "--out", str(path))
    data = json.loads(out)
    assert (status, json.loads(path.read_text(encoding="utf-8"))) == (0, data)
    assert "Wrote" in err
    assert data["verdict"] == data["sentences"][0]
    assert data["targets"][1]["best_time"]["batch"] > data["targets"][0]["best_time"]["batch"]
    assert data["noise"]["value"] == pytest.approx(600, rel=0.1)
    assert data["cost"]["crossovers"][0]["cheaper_after"] == "cpu,threads=2"
    assert [price["per_hour"] for price in data["prices"]] == [0.2, 0.3]
    assert NoiseStudy.model_validate(data["record"]).draws
    assert data["labels"]["time_s"] == "predicted"


def test_a_budget_or_a_choice_of_a_training_measures_one(cli, files, asked, tmp_path):
    path = tmp_path / "kept.json"
    assert cli("batch", files["run"], "--budget", "30", "--noise-out", str(path))[0] == 0
    chosen = "--learning-rate 0.01 --target-loss 0.7 --noise-batch 128 --noise-target cpu,threads=2"
    assert cli("batch", files["run"], *chosen.split())[0] == 0
    assert [plan.budget_s for plan in asked] == [30.0, 60.0]
    assert (asked[1].rate, asked[1].target_loss, asked[1].batch) == (0.01, 0.7, 128)
    assert str(asked[1].target) == "cpu,threads=2"
    assert asked[0].run_id == make_run(1).id
    assert NoiseStudy.from_json(path.read_text(encoding="utf-8")).plan == asked[0]
    assert cli("batch", files["run"], "--noise", str(path))[0] == 0


def test_own_data_give_the_task_and_the_epoch(cli, files, asked):
    out, err = done(cli("batch", files["run"], "--data", files["data"], *PRICES))
    assert asked[0].data == files["data"]
    assert "40 samples" in err
    assert "own data (mine.npz)" in out
    assert "is random inputs" not in out
    assert "per epoch" in out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--price", "gpu:0=2.50"), "no target of this run"),
        (("--price", "cpu"), "write a target and its price per hour"),
        (("--price", "cpu,threads=1=1", "--currency", "euro"), "currency"),
        (("--price", "cpu,threads=1=1", "--priced-on", "today"), "dated by a day"),
        (("--epoch-samples", "0"), "epoch of 0 samples"),
        (("--budget", "1"), "between 10 and 86,400 seconds"),
        (("--learning-rate", "-1"), "above 0 and at most 100"),
        (("--noise-target", "tpu"), "tpu"),
        (("--noise", "{noise}", "--budget", "30"), "leave out --budget"),
        (("--noise", "{run}"), "no Breakeven noise study"),
        (("--noise", "nowhere.json"), "cannot be read"),
        (("--data", "nowhere.npz"), "nothing at"),
        (("--out", "/nowhere/out.json"), "cannot be written"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_measured(cli, files, asked, flags, sentence):
    assert sentence in refused(cli("batch", files["run"], *(flag.format(**files) for flag in flags)))
    assert asked == []


def test_a_study_of_another_workload_is_refused(cli, files, tmp_path):
    study = json.loads(make_noise_study().to_json())
    study["plan"]["workload"]["optimizer"] = "sgd"
    path = tmp_path / "other.json"
    path.write_text(json.dumps(study), encoding="utf-8")
    assert "sgd" in refused(cli("batch", files["run"], "--noise", str(path)))


def test_inference_has_no_noise_scale(cli, tmp_path):
    run = json.loads(make_run(1).to_json())
    run["plan"]["workload"]["mode"] = "infer"
    path = tmp_path / "infer.json"
    path.write_text(json.dumps(run), encoding="utf-8")
    assert "no noise scale" in refused(cli("batch", str(path), "--budget", "30"))
    out, _ = done(cli("batch", str(path)))
    assert "no gradients" in out


def test_a_study_that_fails_is_a_failure_with_its_sentence(cli, files, monkeypatch):
    def fail(tools, plan):
        assert isinstance(tools.cancel, threading.Event)
        assert plan.budget_s == 20
        raise StudyFailed("The untrained network already has a loss of 0.1.")

    monkeypatch.setattr(module, "GRADIENT_NOISE", dataclasses.replace(module.GRADIENT_NOISE, run=fail))
    status, out, err = cli("batch", files["run"], "--budget", "20")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].endswith("loss of 0.1.")


def test_a_memory_study_bounds_the_batches_of_its_target(cli, files, tmp_path):
    run = make_run(1)
    plan = MemoryPlan(workload=run.plan.workload, target=run.plan.targets[1], limit_bytes=2_000_000_000)
    study = MemoryStudy(plan=plan, probes=(make_probe(60, 900_000_000), make_probe(63, None)))
    whole, alone = tmp_path / "whole.json", tmp_path / "alone.json"
    whole.write_text(json.dumps(memory_data(study, memory_answer(study))), encoding="utf-8")
    alone.write_text(study.to_json(), encoding="utf-8")
    for path in (whole, alone):
        second = as_json(cli("batch", files["run"], "--memory", str(path), "--json"))["targets"][1]
        assert (second["memory"]["largest"], second["memory"]["label"]) == (60, "measured")
        assert second["best_throughput"]["batch"] <= 60


def test_a_memory_study_of_something_else_is_refused(cli, files, tmp_path):
    plan = MemoryPlan(workload=Workload(network="100-50-10"), target=Target(), limit_bytes=2_000_000_000)
    path = tmp_path / "other.json"
    path.write_text(MemoryStudy(plan=plan).to_json(), encoding="utf-8")
    assert "no target of" in refused(cli("batch", files["run"], "--memory", str(path)))
    path.write_text("[1]", encoding="utf-8")
    assert "Breakeven memory study" in refused(cli("batch", files["run"], "--memory", str(path)))
    path.write_text("[" * 100_000, encoding="utf-8")
    assert "other.json" in refused(cli("batch", files["run"], "--memory", str(path)))
