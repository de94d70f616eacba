"""The history in a real browser: rows selected, compared under their own address, deleted and restored."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.store import Store
from simulated.runs import make_run
from tests.support.browser import expect, settle

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]
HEADER_PX, ROW_PX, BOX_PX = 35, 35, 16  # of the table; the last is the middle of a row's box


@pytest.fixture
def address(own_server: str, tmp_path: Path) -> str:
    """Return the address of the history of a server with three runs; the initial one has the seed 1."""
    store = Store(f"sqlite:///{tmp_path / 'data' / 'runs.sqlite3'}")
    for seed in (2, 3):
        store.add(make_run(seed))
    store.close()
    return f"{own_server}/history"


def choose(page: Any, *rows: int) -> None:
    """Tick rows of the table, which is a canvas."""
    settle(page)
    for row in rows:
        box = page.get_by_test_id("stDataFrame").first.bounding_box()
        page.mouse.click(box["x"] + BOX_PX, box["y"] + HEADER_PX + ROW_PX * (row + 0.5))
        settle(page)


def test_three_runs_are_compared_at_an_address_that_another_reader_opens(address: str, open_tab: OpenTab) -> None:
    page = open_tab(address)
    choose(page, 0, 1, 2)
    page.get_by_role("button", name="Compare 3 runs").click()
    heading = re.compile("^3 runs compared$")
    expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
    page.wait_for_url(re.compile(r"compare=20260105-seed0003"))
    another = open_tab(page.url)
    expect(another.get_by_role("heading", level=1, name=heading)).to_be_visible()
    expect(another.get_by_text(re.compile("^B against A: ")).first).to_be_visible()
    another.get_by_role("button", name="All studies").click()
    expect(another.get_by_role("heading", level=1, name="History")).to_be_visible()


def test_what_was_deleted_comes_back_after_a_reload(address: str, open_tab: OpenTab) -> None:
    page = open_tab(address)
    choose(page, 0)
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text(re.compile("^Deleted “784-128-10, made from seed 3”")).first).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(re.compile("^Deleted ")).first).to_be_hidden()
