"""Uploads and measurements in a real browser: what tabs of one server see of each other."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.store import Store
from tests.support.browser import expect
from tests.support.runs import make_run

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]


def test_an_upload_is_kept_once_and_a_bad_one_is_refused(own_server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{own_server}/history")
    page.get_by_role("button", name="Import").first.click()
    points = "target,batch,step_ms\n" + "".join(
        f"{t},{b},{f + m * b}\n" for t, f, m in (("a", 0.1, 0.1), ("b", 2, 0.01)) for b in (1, 8, 64)
    )
    file = {"name": "../../points.csv", "mimeType": "text/csv", "buffer": points.encode()}
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_text(re.compile("Imported “points”"))).to_be_visible()
    expect(page.locator("input[type=file]")).to_have_count(1)  # the field is a new, empty one
    bad = {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"target,batch\na,1\n"}
    page.locator("input[type=file]").set_input_files(bad)
    expect(page.get_by_text(re.compile("Not imported"))).to_be_visible()
    page.get_by_role("link", name="Sweep").click()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_visible()


def measure(page: Any) -> None:
    """Start a real sweep, with batch sizes and a budget for minutes, and wait for its first rounds: so it goes on
    however slowly the browser looks.
    """
    page.get_by_role("radio", name="List").or_(page.get_by_role("button", name="List")).first.click()
    sizes = page.get_by_role("textbox", name="Batch sizes to measure")
    sizes.fill("1, 4, 256, 512, 1024, 2048, 3072, 4096")
    sizes.press("Enter")
    page.get_by_text("Pipeline, refinement, budget and precision").click()
    budget = page.get_by_role("spinbutton", name="Budget (seconds)")
    budget.fill("3600")
    budget.press("Enter")
    expect(page.get_by_text("batch 1 to 4,096, at most 1 h")).to_be_visible()
    page.get_by_role("button", name="Measure this machine").click()
    expect(page.get_by_text("Cells done")).to_be_visible()
    expect(page.get_by_text("Estimate so far", exact=True)).to_be_visible()


def test_a_real_sweep_is_seen_by_every_tab_and_can_be_cancelled(own_server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{own_server}/sweep")
    measure(page)
    second = open_tab(f"{own_server}/sweep")
    expect(second.get_by_text("Cells done")).to_be_visible()
    expect(second.get_by_role("button", name="Measure this machine")).to_be_disabled()
    page.reload()
    expect(page.get_by_text("Cells done")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Your newest run")).to_be_visible()
    expect(second.get_by_text("Your newest run")).to_be_visible()
    expect(page.get_by_text("This sweep was cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()


def test_a_server_that_is_ended_leaves_a_sweep_that_can_be_resumed(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    with serve(tmp_path, studies=False) as address:  # ends it with SIGTERM
        measure(open_tab(f"{address}/sweep"))
    store = Store(f"sqlite:///{tmp_path / 'data' / 'runs.sqlite3'}")
    newest = store.summaries()[0]
    store.close()
    assert newest.status == "interrupted"  # by the server itself: nothing has looked at its store since
    assert newest.rounds > 0


def test_a_real_cell_is_traced_from_the_page(own_server: str, open_tab: OpenTab) -> None:
    """The button starts a worker, and the page turns to the new trace when it is there."""
    page = open_tab(f"{own_server}/overhead?run={make_run(1).id}")
    page.get_by_role("button", name="Trace this cell").click()
    expect(page.get_by_text("Where a step goes", exact=True)).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    expect(page.get_by_text(re.compile("measured")).first).to_be_visible()
