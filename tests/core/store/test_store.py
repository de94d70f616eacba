"""The store, on SQLite and on PostgreSQL (BREAKEVEN_TEST_POSTGRES_URL; ``.ci/postgres start`` makes one)."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from core.base.evidence import Warning
from core.rounds.answer.more_time import extended
from core.rounds.run import Cell, Run
from core.rounds.study import new_id
from core.store import RunNotFound, Store, StoreError
from core.store import recording as owner_module
from core.studies.pipeline.kind import PIPELINE
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run

ROOT = Path(__file__).parents[3]
SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


def measured(seed: int = 0, **changes: object) -> Run:
    run = make_run(seed=seed, label="measured", **SMALL)
    return run.model_copy(update={"warnings": (), **changes})


def bare(run: Run) -> Run:
    return run.model_copy(update={"rounds": (), "cells": (), "setups": (), "processes": (), "elapsed_s": 0.0})


def test_what_is_recorded_is_loaded_again(store: Store) -> None:
    run = measured()
    store.begin(bare(run))
    assert store.load(run.id) == bare(run).model_copy(update={"status": "running"})
    for part in (run.processes, run.setups, run.cells):
        store.record(run.id, part)
    for measured_round in run.rounds:
        store.record(run.id, (measured_round,))
    store.finish(run.id, "finished", run.elapsed_s)
    assert store.load(run.id) == run


def test_a_round_is_on_disk_as_soon_as_it_is_recorded(url: str, store: Store) -> None:
    run = measured()
    store.begin(bare(run))
    store.record(run.id, run.rounds[:1])
    other = Store(url)
    assert other.load(run.id).rounds == run.rounds[:1]
    other.close()


def test_a_cell_or_warning_replaces_the_one_before(store: Store) -> None:
    run = measured()
    store.begin(bare(run))
    pending = Cell(target=0, batch=1, outcome="pending")
    store.record(run.id, (pending, Cell(target=1, batch=1, outcome="pending"), Warning(code="noisy", text="One.")))
    done = pending.model_copy(update={"outcome": "measured", "stop_reason": "precise"})
    store.record(run.id, (done, Warning(code="noisy", text="Two."), Warning(code="noisy", text="Three.")))
    loaded = store.load(run.id)
    assert [(c.target, c.outcome) for c in loaded.cells] == [(0, "measured"), (1, "pending")]
    assert loaded.warnings == (Warning(code="noisy", text="Three."),)


def test_the_same_round_twice_is_refused_and_nothing_of_the_call_is_kept(store: Store) -> None:
    run = measured()
    store.begin(bare(run))
    store.record(run.id, run.rounds[:2])
    with pytest.raises(StoreError):
        store.record(run.id, (run.rounds[2], run.rounds[1]))
    assert store.load(run.id).rounds == run.rounds[:2]


def test_summaries_are_newest_first_and_count(store: Store) -> None:
    for seed in (1, 3, 2):
        store.add(make_run(seed=seed, **SMALL))
    found = store.summaries()
    assert [s.id for s in found] == ["20260105-seed0003", "20260105-seed0002", "20260105-seed0001"]
    run = make_run(seed=3, **SMALL)
    assert (found[0].cells, found[0].rounds) == (len(run.cells), len(run.rounds))
    assert (found[0].title, found[0].target_names) == (run.plan.title, run.target_names)
    assert (found[0].label, found[0].status) == ("recorded", "finished")


@pytest.fixture(params=["run", "study"])
def kept(request: pytest.FixtureRequest, store: Store) -> tuple[str, Callable[[str], Any]]:
    """Return the id of what is stored, and the function that reads it."""
    if request.param == "run":
        return store.add(make_run(**SMALL)), store.load
    store.add_study("pipeline", "one", make_pipeline_experiment())
    return "one", lambda study_id: store.study(PIPELINE, study_id)


def test_rename_cleans_the_name_and_refuses_none(store: Store, kept: tuple[str, Callable[[str], Any]]) -> None:
    study_id, read = kept
    store.rename(study_id, "  review\n2026\x00 ")
    assert store.summaries()[0].name == "review 2026"
    assert getattr(read(study_id), "name", "review 2026") == "review 2026"
    store.rename(study_id, "x" * 500)
    assert len(store.summaries()[0].name) == 200
    with pytest.raises(StoreError, match="visible"):
        store.rename(study_id, " \n")


def test_delete_hides_and_restore_brings_back_until_it_is_purged(
    store: Store, kept: tuple[str, Callable[[str], Any]]
) -> None:
    study_id, read = kept
    before = read(study_id)
    store.delete(study_id)
    assert store.summaries() == ()
    with pytest.raises(RunNotFound):
        read(study_id)
    assert store.purge() == 0
    store.restore(study_id)
    assert read(study_id) == before
    store.delete(study_id)
    assert store.purge(timedelta(seconds=-1)) == 1
    with pytest.raises(RunNotFound):
        store.restore(study_id)


def test_unknown_runs_are_named(store: Store) -> None:
    for act in (store.load, store.delete, store.restore, lambda i: store.rename(i, "x")):
        with pytest.raises(RunNotFound, match="nowhere"):
            act("nowhere")
    with pytest.raises(RunNotFound):
        store.record("nowhere", (Warning(code="a", text="A."),))


def test_an_import_is_recorded_and_known_again(store: Store) -> None:
    run = measured(status="running")
    assert store.add(run) == run.id
    loaded = store.load(run.id)
    assert (loaded.label, loaded.status) == ("recorded", "interrupted")
    store.rename(run.id, "another name")
    store.delete(run.id)
    assert store.add(run) == run.id
    assert [s.name for s in store.summaries()] == ["another name"]


def test_the_same_id_with_other_content_gets_a_new_id(store: Store) -> None:
    first = make_run(seed=1, **SMALL)
    other = make_run(seed=2, **SMALL).model_copy(update={"id": first.id})
    store.add(first)
    new = store.add(other)
    assert new != first.id
    assert store.load(first.id) == first
    assert store.load(new).rounds == other.rounds
    assert store.import_run(other) == (new, False, False), "which is known again"
    assert len(store.summaries()) == 2


def test_a_modelled_run_stays_modelled(store: Store) -> None:
    run_id = store.add(make_run(label="modelled", **SMALL))
    assert store.load(run_id).label == "modelled"


def test_new_ids_fit_the_schema_and_differ() -> None:
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    for run_id in ids:
        Run.model_validate(make_run(**SMALL).model_dump() | {"id": run_id})


def test_a_dead_owner_is_interrupted_and_a_living_one_is_not(url: str, store: Store) -> None:
    mine, theirs = measured(1), measured(2)
    store.begin(bare(mine))
    code = (
        "import sys; from core.store import Store; from core.rounds.run import Run;"
        "s = Store(sys.argv[1]); s.begin(Run.from_json(sys.stdin.readline()));"
        "print('begun', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, url]
    other = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdin.write(bare(theirs).to_json() + "\n")
    other.stdin.flush()
    assert other.stdout.readline() == "begun\n"
    assert store.mark_interrupted() == 0
    with pytest.raises(StoreError, match="another process"):
        store.begin(bare(theirs))
    with pytest.raises(StoreError, match="being measured"):
        store.delete(theirs.id)
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    assert store.mark_interrupted() == 1
    assert {s.id: s.status for s in store.summaries()} == {mine.id: "running", theirs.id: "interrupted"}


def test_a_run_that_this_process_no_longer_measures_is_interrupted_by_name(store: Store) -> None:
    run = bare(measured())
    store.begin(run)
    assert store.mark_interrupted("another") == 0
    assert store.mark_interrupted(run.id) == 1
    assert store.load(run.id).status == "interrupted"


def test_a_reused_pid_is_not_taken_for_the_owner(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    host, pid, started = owner_module.this_process().split()
    monkeypatch.setattr("core.store.recording.this_process", lambda: f"{host} {pid} {float(started) - 60:.2f}")
    store.begin(bare(measured()))
    assert store.mark_interrupted() == 1


def test_a_run_on_another_machine_is_left_alone_until_long_silent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.store.recording.this_process", lambda: "0123456789abcdef 1 1.0")
    store.begin(bare(measured()))
    assert store.mark_interrupted() == 0
    monkeypatch.setattr(owner_module, "SILENT_ELSEWHERE", timedelta(0))
    assert store.mark_interrupted() == 1


def test_an_interrupted_run_goes_on_with_its_rounds(store: Store) -> None:
    run = measured()
    store.begin(bare(run))
    store.record(run.id, run.rounds[:4])
    store.finish(run.id, "interrupted", 3.0)
    store.begin(extended(store.load(run.id), 200.0))
    store.record(run.id, run.rounds[4:6])
    store.finish(run.id, "finished", 6.0)
    loaded = store.load(run.id)
    assert (loaded.rounds, loaded.status, loaded.elapsed_s) == (run.rounds[:6], "finished", 6.0)
    assert loaded.plan.budget_s == 203.0, "with the time that it was given then"


def test_a_run_of_another_machine_is_not_resumed(store: Store) -> None:
    store.add(measured(status="interrupted"))
    with pytest.raises(StoreError, match="measured elsewhere"):
        store.begin(measured())


@pytest.mark.processes
def test_two_processes_write_at_once_and_lose_nothing(url: str, store: Store) -> None:
    code = (
        "import sys; from core.store import Store; from core.rounds.run import Run;"
        "run = Run.from_json(sys.stdin.read()); s = Store(sys.argv[1]);"
        "s.begin(run.model_copy(update={'rounds': ()}));"
        "[s.record(run.id, (r,)) for r in run.rounds]; s.finish(run.id, 'finished', 1.0)"
    )
    runs = [make_run(seed=seed, label="measured", batches=(1, 2, 4, 8)) for seed in (1, 2)]
    command = [sys.executable, "-c", code, url]
    children = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True) for _ in runs]
    feeders = [
        threading.Thread(target=child.communicate, args=(run.to_json(),))
        for child, run in zip(children, runs, strict=True)
    ]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    assert [child.returncode for child in children] == [0, 0]
    for run in runs:
        assert store.load(run.id).rounds == run.rounds


def test_a_database_of_a_newer_version_is_refused_and_untouched(url: str) -> None:
    store = Store(url)
    run_id = store.add(make_run(**SMALL))
    with store._database.write() as db:
        db.execute(text("UPDATE schema_version SET version = 99"))
    store.close()
    with pytest.raises(StoreError, match="store version 99"):
        Store(url)
    with store._database.read() as db:
        assert db.execute(text("SELECT version FROM schema_version")).scalar() == 99
        assert db.execute(text("SELECT id FROM runs")).scalar() == run_id
    store.close()


def test_a_database_of_another_program_is_left_alone(url: str) -> None:
    store = Store(url)
    with store._database.write() as db:
        db.execute(text("DROP TABLE schema_version"))
        db.execute(text("DROP TABLE rounds"))
    store.close()
    with pytest.raises(StoreError, match="another program"):
        Store(url)


@pytest.mark.statistical
def test_a_long_history_is_listed_fast(store: Store) -> None:
    """Check a budget of 50 ms for 300 runs of 34 cells, in CPU time, since the machine may be busy."""
    run = make_run(batches=tuple(range(1, 18)), processes=1, passes=1, rounds_per_pass=1)
    for n in range(300):
        store.add(run.model_copy(update={"id": f"20260101-{n:06d}"}))
    assert len(store.summaries()) == 300
    assert sum(s.cells for s in store.summaries()) >= 10_000
    took: list[float] = []
    for _ in range(10):
        start = time.process_time()
        store.summaries()
        took.append(time.process_time() - start)
    assert min(took) < 0.05
