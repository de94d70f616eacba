"""Queries on a long history: pages, searches, tags, the list's description of each study; and freeing of space."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text, update

from core.rounds.run import Run
from core.store import RunNotFound, Store, StoreError, Wanted
from core.store.catalogue import describe
from core.store.tables import RUNS
from core.studies.kind import Context
from core.studies.registry import kind_of
from simulated.kinds import RUN
from simulated.runs import make_run
from tests.support.study_pages import MADE

SMALL: Any = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}
OLD, DAY = "2020-05-05T09:00:00+00:00", timedelta(days=1)


def named(name: str, seed: int, **changes: Any) -> Run:
    return make_run(seed, **SMALL).model_copy(update={"name": name} | changes)


@pytest.fixture
def three(store: Store) -> dict[str, str]:
    """Store three runs and return their ids by name, the newest last."""
    return {name: store.add(named(name, seed)) for seed, name in enumerate(("Alpha", "Beta 100%", "gamma_ray"), 1)}


def found(store: Store, **wanted: Any) -> list[str]:
    page = store.find(Wanted(**wanted), 10)
    assert page.total == len(page.summaries)
    return [summary.name for summary in page.summaries]


def test_a_list_comes_in_pages(store: Store, three: dict[str, str]) -> None:
    pages = [store.find(Wanted(), 2, offset) for offset in (0, 2, 4)]
    assert [[s.name for s in page.summaries] for page in pages] == [["gamma_ray", "Beta 100%"], ["Alpha"], []]
    assert {page.total for page in pages} == {3}
    store.delete(three["Beta 100%"])
    assert store.find(Wanted(), 1).total == 2


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["gamma_ray", "Beta 100%", "Alpha"]),
        ("ALPHA", ["Alpha"]),
        ("100%", ["Beta 100%"]),
        ("0%", ["Beta 100%"]),
        ("a_r", ["gamma_ray"]),
        ("example 784 threads", ["gamma_ray", "Beta 100%", "Alpha"]),
        ("alpha beta", []),
        ("'; DROP TABLE runs", []),
        ("\\", []),
    ],
)
@pytest.mark.usefixtures("three")
def test_a_search_finds_every_word_wherever_it_stands(store: Store, words: str, names: list[str]) -> None:
    assert found(store, words=words) == names


def test_tags_are_found_counted_and_taken_away(store: Store, three: dict[str, str]) -> None:
    store.tag(three.values(), add=[" release\n2 ", "new"])
    store.tag([three["Alpha"]], remove=["new"])
    assert store.tags() == {"new": 2, "release 2": 3}
    assert found(store, tag="new") == ["gamma_ray", "Beta 100%"]
    assert found(store, words="RELEASE new") == ["gamma_ray", "Beta 100%"], "a search finds tags, too"
    assert store.summary(three["Alpha"]).tags == ("release 2",)  # type: ignore[union-attr]
    store.rename(three["Alpha"], "Omega")
    assert found(store, words="omega release") == ["Omega"]
    store.delete(three["Beta 100%"])
    assert store.tags() == {"new": 1, "release 2": 2}


@pytest.mark.parametrize("tags", [["x" * 41], [f"t{n}" for n in range(21)]], ids=["long", "many"])
def test_tags_have_limits_and_nothing_is_kept_beyond_them(store: Store, three: dict[str, str], tags: list[str]) -> None:
    with pytest.raises(StoreError, match="20 tags"):
        store.tag(three.values(), add=tags)
    assert store.tags() == {}
    with pytest.raises(RunNotFound):
        store.tag(["nowhere"], add=["x"])


def test_a_list_says_what_each_kind_of_study_says(store: Store) -> None:
    run_id = store.add(RUN)
    for kind, made in MADE.items():
        store.add_study(kind, f"the-{kind}", made())
        summary = store.summary(f"the-{kind}")
        assert summary is not None
        record, known = made(), kind_of(kind)
        assert summary.verdict == describe(known, record, Context(RUN)).verdict
        assert summary.verdict
        assert any(summary.target_names) == (kind not in ("host", "compiled"))  # neither has a target
        assert bool(summary.network) == (kind not in ("host", "validation"))  # a validation has several
        assert summary.machine.startswith("Example CPU") or kind in ("host", "fleet")
    sweep = store.summary(run_id)
    assert sweep is not None
    assert sweep.verdict.count(".") == 1
    assert store.undescribed() == 0


def test_a_run_says_so_once_it_has_ended(store: Store) -> None:
    run = named("x", 1, label="measured")
    store.begin(run.model_copy(update={"rounds": (), "cells": ()}))
    assert (store.describe(), store.undescribed()) == (0, 0), "nothing is said of what is being measured"
    store.record(run.id, run.rounds)
    store.finish(run.id, "finished", 3.0)
    assert store.summary(run.id).verdict.startswith("2 threads ")  # type: ignore[union-attr]


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    said: list[str] = []
    engine = store._database._engine
    listen: Callable[..., None] = lambda *given: said.append(given[2])  # noqa: E731
    event.listen(engine, "before_cursor_execute", listen)
    yield said
    event.remove(engine, "before_cursor_execute", listen)


def test_no_list_reads_a_record_and_a_search_stays_in_the_index(store: Store, three: dict[str, str]) -> None:
    store.tag(three.values(), add=["x"])
    with statements(store) as said:
        store.find(Wanted(words="alpha", kind="sweep", label="recorded", tag="x"), 10)
        store.find(Wanted(), 1)
        store.summaries("sweep")
    assert said
    assert not any("head" in statement or "rounds.json" in statement for statement in said)
    if store._database.is_sqlite:
        with store._database.read() as db:
            search = (
                "SELECT id FROM runs WHERE deleted_at IS NULL AND words LIKE '%x%' ORDER BY created_at DESC, id DESC"
            )
            (plan,) = db.execute(text(f"EXPLAIN QUERY PLAN {search}")).all()
        assert "COVERING INDEX runs_listed" in plan[-1]


def test_what_was_deleted_together_comes_back_together(url: str, store: Store, three: dict[str, str]) -> None:
    store.delete(three["Alpha"], three["Beta 100%"])
    store.delete(three["gamma_ray"])
    other = Store(url)
    newest, before = other.deletions(9)
    assert (newest.studies, newest.name, before.studies) == (1, "gamma_ray", 2)
    assert other.undo(before.at) == 2
    assert found(other) == ["Beta 100%", "Alpha"]
    other.close()


def test_an_own_run_without_a_round_leaves_nothing_when_it_is_deleted(store: Store) -> None:
    run = named("x", 1, label="measured", rounds=(), cells=())
    store.begin(run)
    store.finish(run.id, "cancelled", 1.0)
    store.delete(run.id)
    assert store.deletions(9) == ()
    with pytest.raises(RunNotFound):
        store.restore(run.id)


@pytest.fixture
def aged(store: Store) -> dict[str, str]:
    """Store old runs, some with studies, and a young one; return their ids by description."""
    ids = {
        what: store.add(named(what, seed, id=f"run-{what}", created_at=OLD))
        for seed, what in enumerate(("plain", "tagged", "tagged-study", "young-study"), 1)
    }
    ids["young"] = store.add(named("young", 9, created_at=datetime.now(UTC).isoformat()))
    for of in ("plain", "tagged", "tagged-study", "young-study"):
        ids[f"of {of}"] = f"of-{of}"
        study = MADE["diagnosis"]().model_copy(update={"run_id": ids[of]})
        store.add_study("diagnosis", f"of-{of}", study)
        if of != "young-study":
            with store._database.write() as db:
                db.execute(update(RUNS).where(RUNS.c.id == f"of-{of}").values(created_at=OLD))
    store.tag([ids["tagged"], ids["of tagged-study"]], add=["keep"])
    return ids


@pytest.mark.parametrize("for_good", [False, True])
def test_pruning_never_takes_what_is_tagged_nor_what_that_rests_on(
    store: Store, aged: dict[str, str], for_good: bool
) -> None:
    gone = {"plain", "of plain"}
    assert store.prune(DAY, dry=True) == len(gone)
    assert len(store.summaries()) == len(aged)
    assert store.prune(DAY, for_good=for_good) == len(gone)
    assert {summary.id for summary in store.summaries()} == {aged[what] for what in aged.keys() - gone}
    assert store.prune(DAY) == 0
    deletions = store.deletions(9)
    assert len(deletions) == (not for_good)
    if deletions:
        store.undo(deletions[0].at)
        assert len(store.summaries()) == len(aged)


def test_a_tagged_study_outlives_a_run_that_was_deleted(store: Store, aged: dict[str, str]) -> None:
    store.delete(aged["tagged-study"], aged["plain"])
    assert store.purge(timedelta(seconds=-1)) == 2
    left = {summary.id for summary in store.summaries()}
    assert aged["of tagged-study"] in left
    assert aged["of plain"] not in left
