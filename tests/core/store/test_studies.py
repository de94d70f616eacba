"""Studies and traces in the store, and stores from earlier versions, on SQLite and on PostgreSQL."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from core.base.schema import UserError
from core.rounds.run import LoopCost, Run
from core.store import RunNotFound, Store, Wanted
from core.store.database import STORE_VERSION
from core.studies.diagnosis.kind import DIAGNOSIS
from core.studies.experiment.record import Experiment
from core.studies.memory.kind import MEMORY
from core.studies.pipeline.kind import PIPELINE
from simulated.diagnoses import HELPING, make_diagnosis
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run
from tests.support.loops import loop_cost, with_loops
from tests.support.traced import cpu_cell, gpu_cell, with_traces

ROOT = Path(__file__).parents[3]
SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


def run_of(seed: int = 0) -> Run:
    return make_run(seed=seed, label="measured", **SMALL).model_copy(update={"warnings": ()})  # type: ignore[arg-type]


def pipeline(created_at: str = "2026-01-06T09:00:00+00:00") -> Experiment:
    return make_pipeline_experiment().model_copy(update={"created_at": created_at, "label": "measured"})


def test_a_study_comes_back_as_it_was(store: Store) -> None:
    diagnosis = make_diagnosis(run_of(), HELPING, reruns={"steps-32": make_run(5)})
    store.add_study("diagnosis", "20260106-aaaaaa", diagnosis)
    store.add_study("pipeline", "20260106-bbbbbb", pipeline())
    assert store.study(DIAGNOSIS, "20260106-aaaaaa") == diagnosis
    assert store.study(PIPELINE, "20260106-bbbbbb") == pipeline()


def test_studies_are_listed_by_kind_and_run_newest_first(store: Store) -> None:
    first, second = run_of(1).model_copy(update={"id": "run-a"}), run_of(2).model_copy(update={"id": "run-b"})
    store.add_study("diagnosis", "one", make_diagnosis(first))
    store.add_study("pipeline", "two", pipeline())
    store.add_study("diagnosis", "three", make_diagnosis(second))
    store.add_study("diagnosis", "four", make_diagnosis(first))
    assert [s.id for s in store.summaries("diagnosis")] == ["four", "three", "one"]
    assert [s.id for s in store.summaries("diagnosis", "run-a")] == ["four", "one"]
    assert store.summaries("diagnosis", "run-c") == ()
    assert [s.id for s in store.summaries()] == ["four", "three", "two", "one"]
    (found,) = store.summaries("pipeline")
    assert (found.id, found.kind, found.run_id, found.label) == ("two", "pipeline", None, "measured")
    assert found.name == found.title == pipeline().title


def test_studies_of_the_same_moment_are_ordered_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.store.history.now", lambda: "2026-01-06T09:00:00+00:00")
    for study_id in ("b", "c", "a"):
        store.add_study("pipeline", study_id, pipeline())
    assert [s.id for s in store.summaries("pipeline")] == ["c", "b", "a"]


def test_an_unknown_study_is_named(store: Store) -> None:
    with pytest.raises(RunNotFound, match="no study nowhere"):
        store.study(PIPELINE, "nowhere")
    store.add_study("pipeline", "one", pipeline())
    with pytest.raises(RunNotFound, match="no study one"):
        store.study(DIAGNOSIS, "one")
    with pytest.raises(RunNotFound, match="no run one"):
        store.load("one")


def test_an_imported_study_is_recorded_and_kept_once(store: Store) -> None:
    diagnosis = make_diagnosis(run_of())
    for record in (pipeline(), pipeline(), diagnosis, diagnosis):
        store.import_study("diagnosis" if record is diagnosis else "pipeline", record)
    summaries = store.summaries()
    assert sorted((s.kind, s.label) for s in summaries) == [("diagnosis", "recorded"), ("pipeline", "recorded")]
    by_kind = {s.kind: s.id for s in summaries}
    assert store.study(PIPELINE, by_kind["pipeline"]).label == "recorded"
    assert store.study(DIAGNOSIS, by_kind["diagnosis"]).experiment.label == "recorded"
    store.delete(by_kind["pipeline"])
    store.import_study("pipeline", pipeline())
    assert len(store.summaries()) == 2, "a deleted one comes back"


def test_a_study_is_on_disk_at_once(url: str, store: Store) -> None:
    store.add_study("pipeline", "one", pipeline())
    other = Store(url)
    assert other.study(PIPELINE, "one") == pipeline()
    other.close()


def test_purging_a_run_takes_its_studies_along(store: Store) -> None:
    kept, gone = store.add(run_of(1)), store.add(run_of(2))
    for run_id in (kept, gone):
        store.add_study("diagnosis", f"of-{run_id}", make_diagnosis(run_of().model_copy(update={"id": run_id})))
    store.add_study("pipeline", "of-none", pipeline())
    store.delete(gone)
    assert store.study(DIAGNOSIS, f"of-{gone}"), "a deleted run can be restored"
    assert store.purge(timedelta(seconds=-1)) == 1
    with pytest.raises(RunNotFound):
        store.study(DIAGNOSIS, f"of-{gone}")
    assert {s.id for s in store.summaries()} == {kept, f"of-{kept}", "of-none"}


LATER = ("verdict", "network", "machine", "words", "described")  # columns of version 4


def make_old(url: str, version: int) -> str:
    """Create a store as that version left it, with a run in it and, in version 2, studies; return the run's id."""
    store = Store(url)
    run_id = store.add(run_of())
    with store._database.write() as db:
        for index in inspect(db).get_indexes("runs"):
            db.execute(text(f"DROP INDEX {index['name']}"))
        db.execute(text("DROP TABLE curves"))
        if version < 4:
            db.execute(text("DROP TABLE tags"))
        db.execute(text("CREATE INDEX runs_by_time ON runs (created_at)"))
        for column in ("part_of", *(LATER if version < 4 else ()), *(("kind", "run_id") if version < 3 else ())):
            db.execute(text(f"ALTER TABLE runs DROP COLUMN {column}"))
        if version == 2:
            columns = (
                "id VARCHAR(64) PRIMARY KEY, kind VARCHAR(16), run_id VARCHAR(64), created_at VARCHAR(40), json TEXT"
            )
            db.execute(text(f"CREATE TABLE studies ({columns})"))
            add = text("INSERT INTO studies VALUES (:id, :kind, :run_id, :at, :json)")
            at = "2026-01-06T09:00:00+00:00"
            body = pipeline().to_json()
            db.execute(add, {"id": "good", "kind": "pipeline", "run_id": None, "at": at, "json": body})
            db.execute(add, {"id": "damaged", "kind": "memory", "run_id": run_id, "at": at, "json": "{}"})
        db.execute(text("UPDATE schema_version SET version = :version"), {"version": version})
    store.close()
    return run_id


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_older_store_is_upgraded_and_loses_nothing(url: str, version: int) -> None:
    run_id = make_old(url, version)
    for _ in range(2):
        store = Store(url)
        with store._database.read() as db:
            assert db.execute(text("SELECT version FROM schema_version")).scalars().all() == [STORE_VERSION]
            assert not inspect(db).has_table("studies")
        assert store.load(run_id).rounds == run_of().rounds
        assert [s.id for s in store.summaries("sweep")] == [run_id]
        if version == 2:
            assert store.study(PIPELINE, "good") == pipeline()
            (damaged,) = store.summaries("memory", run_id)
            with pytest.raises(UserError, match="memory study"):
                store.study(MEMORY, damaged.id)
        if store.undescribed():
            assert [s.verdict for s in store.summaries("sweep")] == [""]
            assert store.find(Wanted(words="784-128", kind="sweep"), 9).total == 1, "it can be searched at once"
            assert store.describe(at_most=9) == (3 if version == 2 else 1)
        (found,) = store.find(Wanted(words="threads are faster", kind="sweep"), 9).summaries
        assert "faster from batch" in found.verdict
        store.close()


@pytest.mark.processes
@pytest.mark.parametrize("old", [False, True], ids=["empty", "old"])
def test_several_processes_may_open_an_empty_or_old_store_at_once(url: str, old: bool) -> None:
    runs = [make_old(url, 2)] if old else []
    code = "import sys; from core.store import Store; assert [s.id for s in Store(sys.argv[1]).summaries('sweep')] == "
    children = [subprocess.Popen([sys.executable, "-c", f"{code}{runs}", url], cwd=ROOT) for _ in range(3)]
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


def test_traces_of_an_import_are_kept_and_distinguished(store: Store) -> None:
    run = with_traces(run_of(), gpu_cell(8), cpu_cell(8))
    store.add(run)
    assert store.load(run.id).traces == run.traces
    assert store.add(run) == run.id
    assert store.add(with_traces(run, gpu_cell(8, step_ms=9.0))) != run.id


def test_what_keras_own_loop_adds_is_kept_and_replaced_by_target(store: Store) -> None:
    run = run_of()
    store.begin(run)
    first, other = loop_cost(0, seed=1), loop_cost(1)
    store.record(run.id, (LoopCost(target=0, batch=4, reason="No time."), other))
    store.record(run.id, (first,))
    assert store.load(run.id).loops == (first, other)
    moved = with_loops(run_of(2), first)
    assert store.load(store.add(moved)).loops == (first,)


def test_traces_survive_export_and_import() -> None:
    run = with_traces(run_of(), gpu_cell(8), cpu_cell(64))
    assert Run.from_json(run.to_json()) == run
    assert Run.from_json(run.to_json(indent=1).encode()).traces == run.traces
