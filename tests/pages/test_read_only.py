"""A read-only server: every page shows its content and says once why there is nothing to press."""

from pathlib import Path
from typing import Any

import pytest

from core.base.schema import UserError
from core.hardware.catalogue import save_own
from core.store import Store
from core.ui import registry
from simulated.kinds import RUN
from simulated.pages import FakeJobs, keep, open_page, text_of
from tests.support.study_pages import keep as keep_study

STARTS = (
    "measure_",
    "resume",
    "save_name",
    "save_tags",
    "delete",
    "undo",
    "self_check",
    "pitfalls",
    "trace",
    "keep_card",
)
PAGES = (
    "crossover",
    "frontier",
    "scaling",
    "batch",
    "hardware",
    "overhead",
    "pipeline",
    "diagnosis",
    "job",
    "fleet",
    "history",
    "method",
)


@pytest.fixture
def shown(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a read-only server over a history with studies."""
    keep(engine.store, RUN, status="cancelled")
    keep_study(engine, "pipeline")
    engine.store.delete(keep_study(engine, "host", study_id="20260105-gone"))
    monkeypatch.setenv("BREAKEVEN_READ_ONLY", "1")
    engine.store = Store()
    assert isinstance(engine.jobs, FakeJobs)
    yield engine
    engine.store.close()


@pytest.mark.pages
@pytest.mark.usefixtures("shown", "this_machine")
@pytest.mark.parametrize("page", [*PAGES, "sweep", "start", ""])
def test_a_page_has_nothing_that_writes_and_says_so_once(page: str) -> None:
    at = open_page(page)
    assert not at.exception
    assert text_of(at).count(registry.READ_ONLY_NOTE) == 1
    assert [b.key for b in at.button if b.key and b.key.lower().startswith(STARTS)] == []
    assert not at.file_uploader
    assert not at.error


@pytest.mark.usefixtures("shown", "this_machine")
def test_the_history_is_found_searched_and_opened() -> None:
    at = open_page("history", find="784")
    assert len(at.dataframe[0].value) == 2
    assert "or export it" in text_of(at)


@pytest.mark.usefixtures("shown")
def test_no_card_is_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only reads"):
        save_own(tmp_path / "gpus.json", ())
    assert not (tmp_path / "gpus.json").exists()
