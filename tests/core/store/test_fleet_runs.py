"""A fleet run in the store: its machines' runs are stored separately, and listed, deleted and restored with it."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from core.rounds.answer.condensed import CONDENSED
from core.store import RunNotFound, Store, Wanted
from core.store.tables import CURVES, ROUNDS, RUNS
from core.studies.fleet.answer import answer_of
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetStudy
from simulated.fleet_studies import make_fleet

BATCHES = (1, 8, 64)


@pytest.fixture
def study() -> FleetStudy:
    return make_fleet(batches=BATCHES)


def rows(store: Store, table: Any) -> int:
    with store._database.read() as db:
        return len(db.execute(select(table)).all())


def test_an_imported_fleet_run_is_one_row_of_the_list_and_its_runs_are_whole(store: Store, study: FleetStudy) -> None:
    found = store.import_study("fleet", study)
    kept = store.study(FLEET, found.id)
    assert kept.runs == ()
    assert [store.load(run_id).rounds for run_id in kept.part_ids] == [run.rounds for run in study.runs]
    listed = store.find(Wanted(), 50)
    assert [(summary.id, summary.kind) for summary in listed.summaries] == [(found.id, "fleet")]
    assert listed.total == 1
    assert {s.id for s in store.find(Wanted(part_of=found.id), 50).summaries} == set(kept.part_ids)
    assert store.summaries("sweep") == ()
    assert store.summary(kept.part_ids[0]).kind == "sweep", "a link to a machine's own run opens"
    assert listed.summaries[0].verdict == answer_of(study, {}).sentence[:240]


def test_the_same_file_again_adds_nothing(store: Store, study: FleetStudy) -> None:
    first = store.import_study("fleet", study)
    assert store.import_study("fleet", study) == (first.id, False, False)
    assert rows(store, RUNS) == 1 + len(study.runs)


def test_a_run_that_was_here_by_itself_stays_so(store: Store, study: FleetStudy) -> None:
    own = store.add(study.runs[0])
    found = store.import_study("fleet", study)
    assert own in store.study(FLEET, found.id).part_ids
    assert {summary.id for summary in store.find(Wanted(), 50).summaries} == {own, found.id}
    store.delete(found.id)
    assert store.load(own).rounds == study.runs[0].rounds


def test_runs_that_were_measured_for_a_fleet_become_its_parts(store: Store, study: FleetStudy) -> None:
    for run in study.runs:
        store.begin(run.model_copy(update={"rounds": ()}))
        store.record(run.id, run.rounds)
        store.finish(run.id, "finished", 1.0)
    assert store.find(Wanted(), 50).total == 3, "until the fleet run is there, each is seen"
    apart = study.kept_apart({run.id: run.id for run in study.runs}).model_copy(update={"label": "measured"})
    store.add_study("fleet", "20260105-afleet", apart)
    assert [s.id for s in store.find(Wanted(), 50).summaries] == ["20260105-afleet"]
    assert store.curves(apart.part_ids).keys() == set(apart.part_ids)


def test_deleting_a_fleet_run_takes_its_runs_and_one_undo_brings_all_back(store: Store, study: FleetStudy) -> None:
    found = store.import_study("fleet", study)
    parts = store.study(FLEET, found.id).part_ids
    store.delete(parts[2])
    store.delete(found.id)
    with pytest.raises(RunNotFound):
        store.load(parts[0])
    assert store.curves(parts) == {}
    newest = store.deletions(5)[0]
    assert (newest.studies, newest.name) == (1, study.title), "its runs are not counted beside it"
    store.undo(newest.at)
    assert store.load(parts[0]).rounds
    with pytest.raises(RunNotFound):
        store.load(parts[2])  # had been deleted by itself
    store.delete(found.id)
    assert store.import_study("fleet", study).restored
    assert store.load(parts[0]).rounds


def test_what_is_purged_or_pruned_leaves_nothing_of_a_fleet_run(store: Store, study: FleetStudy) -> None:
    found = store.import_study("fleet", study)
    store.delete(found.id)
    store.purge(timedelta(seconds=-1))
    assert [rows(store, table) for table in (RUNS, ROUNDS, CURVES)] == [0, 0, 0]
    found = store.import_study("fleet", study)
    store.tag([store.study(FLEET, found.id).part_ids[0]], add=["keep"])
    assert store.prune(timedelta(seconds=-1), dry=True) == 0, "a tagged run of one machine keeps all of it"
    store.tag([store.study(FLEET, found.id).part_ids[0]], remove=["keep"])
    assert store.prune(timedelta(seconds=-1), for_good=True) == 4
    assert [rows(store, table) for table in (RUNS, ROUNDS, CURVES)] == [0, 0, 0]


def test_condensed_runs_of_another_version_are_made_again_in_the_background(store: Store, study: FleetStudy) -> None:
    found = store.import_study("fleet", study)
    parts = store.study(FLEET, found.id).part_ids
    before = store.curves(parts)
    with store._database.write() as db:
        db.execute(update(CURVES).values(version=CONDENSED - 1, json="{}"))
    assert store.curves(parts, make_at_most=0) == {}
    while store.describe():
        pass
    assert store.curves(parts, make_at_most=0) == before


def test_a_damaged_condensed_run_is_made_again(store: Store, study: FleetStudy) -> None:
    found = store.import_study("fleet", study)
    parts = store.study(FLEET, found.id).part_ids
    before = store.curves(parts)
    with store._database.write() as db:
        db.execute(update(CURVES).where(CURVES.c.run_id == parts[0]).values(json='{"version": 1}'))
    assert store.curves(parts) == before
