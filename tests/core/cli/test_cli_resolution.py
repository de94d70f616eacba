"""``resolution``: a whole study on simulated workers, its JSON, its earlier occasions, and refusals."""

import json
from pathlib import Path

import pytest

from core.store import Store
from core.studies.resolution.kind import RESOLUTION
from core.studies.resolution.record import ResolutionStudy
from simulated.commands import Command, as_json, done, refused
from simulated.resolutions import CURVE
from simulated.simulation import Machine, NoiseModel

SHORT = ("resolution", "--preset", "784-128-10", "--target", "cpu,threads=1", "--batches", "1,64", "--budget", 60)
KEYS = [
    "verdict", "label", "target", "claims", "equal", "difference", "low", "high", "batches", "occasions", "record",
]  # fmt: skip


@pytest.fixture
def equal(machine: Machine) -> Machine:
    """Make both workers equally fast, with noise."""
    machine.curves, machine.noise = (CURVE, CURVE), NoiseModel()
    machine.__post_init__()
    return machine


@pytest.mark.usefixtures("equal")
def test_json_has_exactly_the_promised_keys(cli: Command) -> None:
    data = as_json(cli(*SHORT, "--no-store", "--json"))
    assert list(data) == KEYS
    assert data["target"] == "cpu,threads=1"
    assert data["equal"] == (not set(data["claims"]) - {"equivalent"})
    assert 0 < data["low"] < data["difference"] < data["high"] < 1
    assert [one["batch"] for one in data["batches"]] == [1, 64]
    assert len(ResolutionStudy.model_validate(data["record"]).run.rounds) > 10


def test_a_worker_that_is_slower_is_a_claim(cli: Command, equal: Machine) -> None:
    equal.curves = CURVE, type(CURVE)(1.5 * CURVE.floor_ms, 1.5 * CURVE.slope_ms)
    data = as_json(cli(*SHORT, "--no-store", "--json"))
    assert data["claims"]
    assert data["equal"] is False


@pytest.mark.statistical
@pytest.mark.usefixtures("equal", "data_dir")
def test_it_is_kept_as_a_study_and_later_ones_know_it(cli: Command, tmp_path: Path) -> None:
    out = tmp_path / "resolution.json"
    text, _ = done(cli(*SHORT, "--name", "mine", "--out", out))
    assert text.splitlines()[0] == json.loads(out.read_text())["verdict"]
    store = Store()
    (summary,) = store.summaries(RESOLUTION.name)
    kept = store.study(RESOLUTION, summary.id)
    assert (summary.name, kept.run.batches) == ("mine", (1, 64))
    assert kept == RESOLUTION.record.model_validate(json.loads(out.read_text())["record"])
    for number in range(2):
        earlier = kept.model_copy(update={"created_at": f"2026-01-0{number + 1}T00:00:00+00:00"})
        store.add_study(RESOLUTION.name, f"20260101-{number}", earlier)
    store.close()
    assert as_json(cli(*SHORT, "--json"))["occasions"]["count"] == 4


@pytest.mark.usefixtures("equal")
def test_the_default_is_four_batches_on_the_whole_cpu(cli: Command) -> None:
    data = as_json(cli("resolution", "--preset", "784-128-10", "--budget", 60, "--no-store", "--json"))
    assert data["target"] == "cpu"
    assert [one["batch"] for one in data["batches"]] == [1, 10, 102, 1024]


@pytest.mark.parametrize("flags", [("--batches", "x"), ("--target", "cpu,threads=1,gpu"), ("--budget", 0)])
def test_what_cannot_be_measured_is_refused(cli: Command, flags: tuple[object, ...]) -> None:
    assert refused(cli(*SHORT, *flags))
