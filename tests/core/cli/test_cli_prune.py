"""``prune``: what it says, and that it does no more than that."""

import pytest

from core.store import Store
from tests.support.commands import Command
from tests.support.runs import make_run

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


def test_days_are_asked_for(cli: Command) -> None:
    for arguments in ((), ("--older-than", 0)):
        assert cli("prune", *arguments)[0] == 2


def test_a_read_only_history_is_left_alone(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Store().close()
    monkeypatch.setenv("BREAKEVEN_READ_ONLY", "1")
    status, out, err = cli("prune", "--older-than", 1)
    assert (status, out) == (1, "")
    assert err.startswith("Nothing can be measured, imported, changed or deleted here")
