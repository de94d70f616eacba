"""A run of unknown origin that names code: the dashboard's process reads, shows and refuses it, and runs nothing."""

import sys
from pathlib import Path

import pytest

from core.machine.interference import InterferenceSampler
from core.networks.families import LayerCount
from core.networks.families.code import Code
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.rounds.show.imports import read_run
from core.rounds.show.report import html_report
from core.store import Store
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.diagnosis.run import DiagnosisPlan
from core.studies.jobs import Jobs
from core.studies.sweep.kind import SWEEP
from simulated.runs import make_run, planned

TRAP = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("")
def make():
    raise AssertionError
"""


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file written by importing the module, which every process started from here can find."""
    (tmp_path / "trap.py").write_text(TRAP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "imported"


def hostile(folder: Path, entry: str = "trap:make") -> Run:
    """Return a cancelled run as somebody might send it."""
    network = Code(
        entry=entry, folder=str(folder), sample_shape=(6,), outputs=3, counts=(LayerCount("dense", 27, 39, 39, 0, 3),)
    )
    run = make_run()
    run = planned(run, workload=run.plan.workload.model_copy(update={"network": network}))
    return Run.from_json(run.model_copy(update={"status": "cancelled"}).to_json())


def test_reading_and_reporting_such_a_run_imports_nothing(trap: Path) -> None:
    run = read_run(hostile(trap.parent).to_json().encode(), "run.json")
    assert "trap:make" in html_report(run, analyse(run))
    assert "trap" not in sys.modules
    assert not trap.exists()


@pytest.mark.parametrize("entry", ["trap:make", "os:abort"])
def test_the_dashboard_neither_resumes_nor_starts_it(trap: Path, entry: str) -> None:
    store = Store()
    run = hostile(trap.parent, entry)
    store.add(run)
    jobs = Jobs(store)
    with pytest.raises(ValueError, match=rf"\({entry}\)"):
        jobs.start(SWEEP, run)
    jobs.close()
    assert jobs.snapshot() is None
    assert not trap.exists()


@pytest.mark.tensorflow
def test_a_diagnosis_from_the_dashboard_fails_in_the_worker_with_the_same_sentence(trap: Path) -> None:
    """Start real workers, which refuse by themselves, so that no caller has to remember."""
    jobs = Jobs(Store(), interference=InterferenceSampler)
    assert jobs.start(DIAGNOSIS, DiagnosisPlan(hostile(trap.parent), 0, 8, 20.0))
    jobs.wait(120)
    last = jobs.snapshot()
    assert last.record is None
    assert "--model trap:make." in str(last.error)
    assert not trap.exists()
