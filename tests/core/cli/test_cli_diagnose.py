"""``diagnose``: its measurements, output and files, and refusals before anything runs."""

import json
from pathlib import Path

import pytest

from core.machine.environment import capture_environment
from core.rounds.run import Run
from core.studies.diagnosis.answer import diagnose
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.remedies import REMEDIES
from simulated.causes import BATCH, Case, make_case
from simulated.commands import Command, as_json, done, refused
from simulated.runs import make_run
from simulated.simulation import Machine

ANOTHER = "Note: this run was measured on another machine"


@pytest.fixture
def case(machine: Machine) -> Case:
    """Return the case of a GPU that is slow for lack of half precision, and make the simulated machine as slow."""
    made = make_case("precision", 3)
    machine.law = made.law
    machine.__post_init__()  # drifts of as many workers as there are targets
    return made


@pytest.fixture
def path(case: Case, tmp_path: Path) -> Path:
    """Write the case's run as measured on this machine."""
    found = tmp_path / "run.json"
    here = case.run.model_copy(update={"environment": capture_environment()})
    found.write_text(here.to_json())
    return found


def test_the_verdict_comes_first_and_then_every_remedy(cli: Command, machine: Machine, case: Case, path: Path) -> None:
    out, err = done(cli("diagnose", path))
    lines = out.splitlines()
    assert lines[0].startswith("Mixed precision (")
    assert f"helps most: {case.gain:.1f}"[:-1] in lines[0]
    assert "95 % interval" in lines[0]
    assert lines[2].split() == ["remedy", "says", "gain", "95", "%", "from", "to"]
    assert lines[3].startswith("Mixed precision (")
    assert " helps " in lines[3]
    for words in ("Others: bfloat16", "Crossover: Before: ", "Not measured:", "A GPU target has no choice of threads."):
        assert words in out
    assert "Start-up inside the" in out
    assert lines[-1].startswith("Measured for GPU")
    assert lines[-1].endswith(" s, finished.")
    assert "1 worker process" in err
    assert ANOTHER not in err
    assert machine.clock.now_s() < 1.2 * 120


def test_json_is_one_object_with_the_record(cli: Command, case: Case, path: Path) -> None:
    said = as_json(cli("diagnose", path, "--json", "--batch", BATCH, "--budget", "90"))
    assert {"verdict", "findings", "readings", "record"} <= set(said)
    record = Diagnosis.model_validate(said["record"])
    assert (record.run_id, record.target, record.batch) == (case.run.id, 1, BATCH)
    assert (record.experiment.label, record.experiment.budget_s) == ("measured", 90.0)
    assert {finding["family"] for finding in said["findings"]} == set(REMEDIES) - {"call", "pad", "relaxed"}
    answer = diagnose(Run.from_json(path.read_bytes()), record)
    assert said["verdict"] == answer.sentence
    assert [f["gain"] for f in said["findings"]] == [f.gain for f in answer.findings]
    assert said["label"] == "measured"
    assert [reading["code"] for reading in said["readings"]] == ["startup"]


def test_target_and_batch_can_be_chosen(cli: Command, path: Path) -> None:
    out, _ = done(cli("diagnose", path, "--json", "--target", "cpu,threads=2", "--batch", "16"))
    record = Diagnosis.model_validate(json.loads(out)["record"])
    assert (record.target, record.batch) == (0, 16)
    assert str(record.experiment.arms[0].target) == "cpu,threads=2"


def test_files_that_cannot_be_diagnosed_are_refused(cli: Command, machine: Machine, tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("target,batch,step_ms\na,1,1.0\nb,1,2.0\na,8,2.0\nb,8,2.5\n")
    assert "Only points" in refused(cli("diagnose", points))
    empty = tmp_path / "empty.json"
    empty.write_text(make_run().model_copy(update={"rounds": ()}).to_json())
    assert "no measured round" in refused(cli("diagnose", empty))
    assert "cannot be read" in refused(cli("diagnose", tmp_path / "nowhere.json"))
    one = make_run()
    only_first = tuple(r.model_copy(update={"blocks": tuple(b for b in r.blocks if b.target == 0)}) for r in one.rounds)
    failed = tmp_path / "failed.json"
    failed.write_text(one.model_copy(update={"rounds": only_first}).to_json())
    assert "no measured step" in refused(cli("diagnose", failed))
    assert machine.starts == 0


@pytest.mark.parametrize("change", [{"hostname_hash": "elsewhere"}, {"cpu": "Another CPU"}, None])
def test_a_run_of_another_machine_is_diagnosed_with_a_warning(
    cli: Command, case: Case, tmp_path: Path, change: dict[str, str] | None
) -> None:
    here = capture_environment()
    environment = None if change is None else here.model_copy(update=change)
    path = tmp_path / "run.json"
    path.write_text(case.run.model_copy(update={"environment": environment}).to_json())
    out, err = done(cli("diagnose", path, "--budget", "40"))
    assert err.count(ANOTHER) == 1
    assert ANOTHER not in out
