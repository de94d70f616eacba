"""``pipeline``: a whole study on simulated workers, its text and JSON, and refusals."""

from pathlib import Path

import numpy as np
import pytest

from core.studies.experiment.record import Experiment
from core.worker.protocol import Prepare
from core.workload.spec import Target
from simulated.commands import Command, as_json, done, holds, refused
from simulated.simulation import Machine

SHORT = ("pipeline", "--preset", "784-128-10", "--target", "cpu", "--batch", 64, "--budget", 180)
RESIDENT_MS = 2.0


def law(request: Prepare, _: Target) -> float:
    """Compute the step time: feeding takes 64 × cost / 2 cores; prefetching hides it behind the step, without it they
    add up.
    """
    pipeline = request.pipeline
    if pipeline.kind != "tfdata":
        return RESIDENT_MS
    feed_ms = 64 * pipeline.preprocess_us / 2 / 1000
    return max(RESIDENT_MS, feed_ms) if pipeline.prefetch else RESIDENT_MS + feed_ms


@pytest.fixture
def fed(machine: Machine) -> Machine:
    machine.law = law
    return machine


@pytest.mark.usefixtures("fed")
def test_a_study_prints_verdict_table_and_label(cli: Command) -> None:
    out, err = done(cli(*SHORT))
    lines = out.splitlines()
    assert lines[0].startswith("Not input-bound")
    assert "helping at 1, " in lines[1]
    holds(lines[2], "50 µs", "clear at 100")
    assert [line for line in lines if line.startswith("Resident on")]
    assert [line for line in lines if line.startswith("Preprocessing 500 µs") and "% (95 %: " in line]
    assert any(line.startswith("All times are") and "784-128-10 (training, adam)" in line for line in lines)
    holds(err, "14 ways of", "Preparing: ")


@pytest.mark.usefixtures("fed")
def test_json_has_exactly_the_promised_keys(cli: Command) -> None:
    data = as_json(cli(*SHORT, "--json"))
    assert list(data) == [
        "verdict", "label", "target", "batch", "chosen", "arms", "missing", "families", "prefetch", "starvation",
        "record",
    ]  # fmt: skip
    assert data["families"]["prefetch"] == ["prefetch-0", "prefetch-1", "prefetch-2", "prefetch-4", "base"]
    shares = {arm["code"]: arm["share"] for arm in data["arms"]}
    assert shares["resident"] is None
    assert shares["cost-500"]["value"] == pytest.approx(1 - RESIDENT_MS / 16.0, abs=0.05)
    assert shares["cost-500"]["level"] == "highly input-bound"
    assert data["starvation"]["low_us"] < data["starvation"]["cost_us"] < data["starvation"]["high_us"]
    assert len(Experiment.model_validate(data["record"]).rounds) > 10


@pytest.mark.usefixtures("fed")
def test_flags_reach_the_arms(cli: Command) -> None:
    flags = ("--prefetch", "off", "--parallel-calls", 3, "--preprocess-us", 75, "--mode", "infer", "--shuffle")
    record = Experiment.model_validate(as_json(cli(*SHORT, *flags, "--json"))["record"])
    base = record.arms[record.index_of("base") or 0].pipeline
    assert (base.prefetch, base.parallel_calls, base.preprocess_us, base.shuffle) == (0, 3, 75.0, True)
    assert record.workload.mode == "infer"


@pytest.mark.usefixtures("fed")
def test_own_data_are_described_and_cost_nothing_more_by_default(cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.zeros((9, 784), np.uint8))
    out, err = done(cli(*SHORT, "--data", path))
    assert "mine.npy: 9 samples" in err
    holds(out, "own data (mine.npy).", "Your own data")


@pytest.mark.usefixtures("fed")
def test_the_default_target_is_the_whole_cpu_without_a_gpu(cli: Command) -> None:
    assert as_json(cli("pipeline", "--preset", "784-128-10", "--budget", 40, "--json"))["target"] == "cpu"


def test_data_that_do_not_fit_the_network_are_refused(cli: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((3, 10), np.float32))
    assert "takes 784" in refused(cli(*SHORT, "--data", tmp_path / "small.npy"))
