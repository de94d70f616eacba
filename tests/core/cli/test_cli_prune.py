"""``prune``: its output, and that it does nothing else."""

import sqlite3

import pytest

from core.store import Store, database
from simulated.commands import Command
from simulated.runs import make_run

SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


@pytest.mark.parametrize(
    ("flags", "said", "left"),
    [
        (("--dry-run",), "1 study older than 30 days would be deleted.", 2),
        ((), "1 study older than 30 days deleted; History brings them back.", 1),
        (("--for-good",), "1 study older than 30 days removed for good.", 1),
    ],
    ids=["dry", "deleted", "for good"],
)
def test_it_says_how_many_and_what_became_of_them(cli: Command, flags: tuple[str, ...], said: str, left: int) -> None:
    store = Store()
    old = {"created_at": "2020-01-01T00:00:00+00:00"}
    _, tagged = (store.add(make_run(seed, **SMALL).model_copy(update=old)) for seed in (1, 2))  # type: ignore[arg-type]
    store.tag([tagged], add=["keep"])
    assert cli("prune", "--older-than", 30, *flags) == (0, f"{said}\n", "")
    assert len(store.summaries()) == left
    assert len(store.deletions(9)) == (not flags)
    store.close()


def test_room_that_cannot_be_given_back_is_said_after_what_was_removed(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    store = Store()
    old = store.add(make_run(1, **SMALL).model_copy(update={"created_at": "2020-01-01T00:00:00+00:00"}))  # type: ignore[arg-type]
    reader = sqlite3.connect(store.where)
    own = Store.free_room

    def while_another_reads(self: Store) -> None:
        reader.execute("BEGIN IMMEDIATE")
        own(self)

    monkeypatch.setattr(Store, "free_room", while_another_reads)
    status, out, err = cli("prune", "--older-than", 30, "--for-good")
    reader.close()
    assert (status, out.split()[0]) == (1, "1")
    assert err.startswith(f"{store.where} stayed locked")
    assert old not in {summary.id for summary in store.summaries()}
    own(store)
    store.close()


def test_days_are_asked_for(cli: Command) -> None:
    for arguments in ((), ("--older-than", 0)):
        assert cli("prune", *arguments)[0] == 2


def test_a_read_only_history_is_left_alone(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Store().close()
    monkeypatch.setenv("BREAKEVEN_READ_ONLY", "1")
    status, out, err = cli("prune", "--older-than", 1)
    assert (status, out) == (1, "")
    assert err.startswith("Nothing can be")
