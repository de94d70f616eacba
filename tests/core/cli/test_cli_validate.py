"""``validate``: predictions on the disk before the first block, the answer, its file, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.cli.study_command import NOTHING
from core.hardware.host import KIND_WORDS
from core.machine.environment import capture_environment
from core.machine.lock import machine_lock
from core.store import Store
from core.studies.registry import kind_of, read_any
from core.studies.validation.answer import validation
from core.studies.validation.record import ValidationStudy
from simulated.commands import Command, done, holds, refused, stop_at
from simulated.fake_nvml import FakeCard
from simulated.hosts import make_host_study
from simulated.selfchecks import Neighbours
from simulated.validations import Card
from tests.support.gpus import BLACKWELL, plug_in

NAME = "Tesla T4"
FIRST_SWEEP_S = 150.0
"""Time at which the first sweep of the simulated card is well under way."""


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Card:
    """Simulate a T4 in this machine, with steps 1.5 times as long as modelled."""
    monkeypatch.chdir(tmp_path)
    plug_in(monkeypatch, FakeCard(NAME, capability=(7, 5)))
    card = Card(1.5, seed=4)
    monkeypatch.setattr("core.worker.process.launch_processes", lambda *given, **more: card.launch(*given, **more))
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: card.clock)
    monkeypatch.setattr("core.machine.interference.InterferenceSampler", Neighbours)
    monkeypatch.setattr("core.machine.meter.Meter", lambda: None)
    return card


def read(path: Path) -> ValidationStudy:
    kind, record = read_any(path.read_bytes())
    assert kind.name == "validation"
    assert isinstance(record, ValidationStudy)
    return record


@pytest.mark.statistical
@pytest.mark.usefixtures("card")
def test_it_finds_the_factor_prints_every_step_and_keeps_and_writes_the_study(cli: Command) -> None:
    out, err = done(cli("validate", "--out", "found.json", "--host", "weak"))
    study = read(Path("found.json"))
    found = validation(study).first
    assert found.measured == 40
    assert found.factor is not None
    assert found.factor.low < 1.5 < found.factor.high
    holds(out, "modelled as T4", "inside the predicted", "Self-check of gpu:0: ", "8,192")
    holds(err, "40 steps predicted", "Sweep 10 of")
    store = Store()
    (summary,) = store.summaries("validation")
    assert store.study(kind_of("validation"), summary.id) == study
    assert "measured steps" in summary.verdict
    store.close()


def test_predictions_are_on_the_disk_before_the_first_worker_starts(
    cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[ValidationStudy] = []
    whole = card.launch

    def launch(*given: Any, **more: Any) -> Any:
        before.append(read(Path("found.json")))
        return whole(*given, **more)

    monkeypatch.setattr(card, "launch", launch)
    done(cli("validate", "--out", "found.json", "--minutes", 5))
    assert {(len(one.predictions.steps), len(one.sweeps), one.status) for one in before} == {(40, 0, "interrupted")}
    assert read(Path("found.json")).predictions == before[0].predictions


@pytest.mark.usefixtures("card")
def test_the_file_has_a_name_of_its_own_where_none_is_given(cli: Command) -> None:
    out, _ = done(cli("validate", "--minutes", 4, "--json", "--no-store"))
    (path,) = Path().glob("validation-*.json")
    assert json.loads(out) == json.loads(path.read_text())


def test_without_a_gpu_it_is_refused_in_one_sentence(cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch)
    assert refused(cli("validate", "--out", "found.json")).startswith("“validate” measures")
    assert (card.clock.time_s, Path("found.json").exists()) == (0.0, False)


def test_a_gpu_that_cannot_be_used_is_refused_with_the_reason(
    cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, BLACKWELL)
    assert "12.0" in refused(cli("validate"))
    assert card.clock.time_s == 0.0


def test_a_card_that_the_catalogue_lacks_is_refused_with_the_nearest_until_one_is_named(
    cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, FakeCard("NVIDIA T40", capability=(7, 5)))
    holds(refused(cli("validate")), "“NVIDIA T40”", "did you mean", "“--gpu NAME”")
    assert card.clock.time_s == 0.0
    holds(refused(cli("validate", "--gpu", "T9000")), "T9000")
    out, _ = done(cli("validate", "--gpu", "t4", "--minutes", 4))
    assert "(modelled as T4): " in out


@pytest.mark.parametrize("flags", [("--minutes", 1), ("--host", "laptop"), ("--out", "no/such/folder/x.json")])
def test_what_it_does_not_accept_is_refused_first(cli: Command, card: Card, flags: tuple[object, ...]) -> None:
    assert refused(cli("validate", *flags))
    assert card.clock.time_s == 0.0


@pytest.mark.usefixtures("card")
def test_a_host_study_of_this_machine_is_what_is_predicted_with(cli: Command) -> None:
    here = make_host_study(noise=0.02).model_copy(update={"environment": capture_environment()})
    elsewhere = here.model_copy(update={"environment": capture_environment().model_copy(update={"cpu": "Another"})})
    store = Store()
    store.add_study("host", "20260105-host00", elsewhere)
    store.close()
    done(cli("validate", "--minutes", 4, "--out", "found.json", "--host", "server"))
    assert read(Path("found.json")).predictions.host == f"assumed, {KIND_WORDS['server']}"
    store = Store()
    store.add_study("host", "20260105-host01", here)
    store.close()
    done(cli("validate", "--minutes", 4, "--out", "found.json", "--host", "server"))
    assert read(Path("found.json")).predictions.host == "measured"


def test_ctrl_c_keeps_what_was_measured(cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(card, monkeypatch, FIRST_SWEEP_S)
    out, err = done(cli("validate", "--out", "found.json"))
    assert "Stopping; " in err
    study = read(Path("found.json"))
    assert study.status == "cancelled"
    assert 0 < validation(study).first.measured < 40
    assert out.startswith(f"{NAME} (modelled as T4): ")


def test_stopped_before_the_first_sweep_the_predictions_stay_in_the_file(
    cli: Command, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(card, monkeypatch, 20.0)
    status, out, err = cli("validate", "--out", "found.json")
    assert (status, out) == (0, "")
    assert err.splitlines()[-1] == NOTHING
    assert len(read(Path("found.json")).predictions.steps) == 40
    assert Store().summaries("validation") == ()


@pytest.mark.usefixtures("no_patience")
def test_a_busy_machine_is_a_failure(cli: Command, card: Card) -> None:
    with machine_lock("something else"):
        status, _, err = cli("validate")
    assert status == 1
    assert "measuring" in err.splitlines()[-1]
    assert card.clock.time_s == 0.0
