"""Studies and traces in the store, and stores from before there were any, on SQLite and on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from core.experiment import Diagnosis
from core.results import Run
from core.store import RunNotFound, Store
from core.store.database import STORE_VERSION
from tests.support.diagnoses import HELPING, make_diagnosis
from tests.support.runs import make_run
from tests.support.traced import cpu_cell, gpu_cell, with_traces

ROOT = Path(__file__).parents[3]
SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


def run_of(seed: int = 0) -> Run:
    return make_run(seed=seed, label="measured", **SMALL).model_copy(update={"warnings": ()})  # type: ignore[arg-type]


def test_a_study_comes_back_as_it_was(store: Store) -> None:
    run = run_of()
    diagnosis = make_diagnosis(run, HELPING, reruns={"steps-32": make_run(5)})
    store.add_study("diagnosis", "20260106-aaaaaa", run.id, diagnosis.to_json())
    store.add_study("pipeline", "20260106-bbbbbb", None, '{"title": "é ✓"}')
    assert Diagnosis.from_json(store.load_study("20260106-aaaaaa")) == diagnosis
    assert store.load_study("20260106-bbbbbb") == '{"title": "é ✓"}'


def test_studies_are_listed_by_kind_and_run_newest_first(store: Store) -> None:
    for kind, study_id, run_id in (
        ("diagnosis", "one", "run-a"),
        ("pipeline", "two", None),
        ("diagnosis", "three", "run-b"),
        ("diagnosis", "four", "run-a"),
    ):
        store.add_study(kind, study_id, run_id, "{}")  # type: ignore[arg-type]
    assert [s.id for s in store.studies("diagnosis")] == ["four", "three", "one"]
    assert [s.id for s in store.studies("diagnosis", "run-a")] == ["four", "one"]
    assert store.studies("diagnosis", "run-c") == ()
    (pipeline,) = store.studies("pipeline")
    assert (pipeline.id, pipeline.kind, pipeline.run_id) == ("two", "pipeline", None)
    times = [s.created_at for s in store.studies("diagnosis")]
    assert times == sorted(times, reverse=True)
    assert all(times)


def test_studies_of_the_same_moment_are_ordered_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.store.studies.now", lambda: "2026-01-06T09:00:00+00:00")
    for study_id in ("b", "c", "a"):
        store.add_study("pipeline", study_id, None, "{}")
    assert [s.id for s in store.studies("pipeline")] == ["c", "b", "a"]


def test_an_unknown_study_is_named(store: Store) -> None:
    with pytest.raises(RunNotFound, match=r"^There is no study nowhere here\.$"):
        store.load_study("nowhere")


def test_a_study_is_on_disk_at_once(url: str, store: Store) -> None:
    store.add_study("pipeline", "one", None, "{}")
    other = Store(url)
    assert other.load_study("one") == "{}"
    other.close()


def test_purging_a_run_takes_its_studies_along(store: Store) -> None:
    kept, gone = store.add(run_of(1)), store.add(run_of(2))
    store.add_study("diagnosis", "of-kept", kept, "{}")
    store.add_study("diagnosis", "of-gone", gone, "{}")
    store.add_study("pipeline", "of-none", None, "{}")
    store.delete(gone)
    assert store.load_study("of-gone") == "{}", "a deleted run can be restored"
    assert store.purge(timedelta(seconds=-1)) == 1
    with pytest.raises(RunNotFound):
        store.load_study("of-gone")
    assert [s.id for s in store.studies("diagnosis")] == ["of-kept"]
    assert [s.id for s in store.studies("pipeline")] == ["of-none"]


def make_old(url: str) -> str:
    """A store as version 1 left it, with a run in it; returns the run's id."""
    store = Store(url)
    run_id = store.add(run_of())
    with store._database.write() as db:
        db.execute(text("DROP TABLE studies"))
        db.execute(text("UPDATE schema_version SET version = 1"))
    store.close()
    return run_id


def test_a_store_of_the_first_version_is_brought_up_to_date(url: str) -> None:
    run_id = make_old(url)
    store = Store(url)
    with store._database.read() as db:
        assert db.execute(text("SELECT version FROM schema_version")).scalars().all() == [STORE_VERSION]
        assert {index["name"] for index in inspect(db).get_indexes("studies")} == {"studies_by_time"}
    assert store.load(run_id).rounds == run_of().rounds
    store.add_study("diagnosis", "one", run_id, "{}")
    store.close()
    again = Store(url)
    assert again.load_study("one") == "{}"
    assert [s.id for s in again.summaries()] == [run_id]
    again.close()


def test_several_processes_may_open_an_old_store_at_once(url: str) -> None:
    run_id = make_old(url)
    code = "import sys; from core.store import Store; Store(sys.argv[1]).load(sys.argv[2])"
    children = [subprocess.Popen([sys.executable, "-c", code, url, run_id], cwd=ROOT) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]


def test_traces_are_kept_and_replaced_by_target_and_batch(store: Store) -> None:
    run = run_of()
    store.begin(run.model_copy(update={"traces": ()}))
    first, other, cpu = gpu_cell(8), gpu_cell(64), cpu_cell(8)
    store.record(run.id, (first, other, cpu))
    assert store.load(run.id).traces == (first, other, cpu)
    again = gpu_cell(8, step_ms=5.0, retraces=3)
    store.record(run.id, (again,))
    assert store.load(run.id).traces == (again, other, cpu)
    assert store.load(run.id).rounds == run.rounds


def test_traces_of_an_import_are_kept_and_told_apart(store: Store) -> None:
    run = with_traces(run_of(), gpu_cell(8), cpu_cell(8))
    store.add(run)
    assert store.load(run.id).traces == run.traces
    assert store.add(run) == run.id
    assert store.add(with_traces(run, gpu_cell(8, step_ms=9.0))) != run.id


def test_traces_survive_export_and_import() -> None:
    run = with_traces(run_of(), gpu_cell(8), cpu_cell(64))
    assert Run.from_json(run.to_json()) == run
    assert Run.from_json(run.to_json(indent=1).encode()).traces == run.traces
