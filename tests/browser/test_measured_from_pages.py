"""Uploads and measurements in a real browser, and what the tabs of one server see of each other."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.machine.lock import machine_lock
from core.store import Store
from simulated.runs import make_run
from tests.support.browser import expect, go

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]


MEASURED = re.compile("[1-9] of 8 batch sizes measured")


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
    go(page, "Sweep")
    expect(page.get_by_role("button", name="Measure this machine")).to_be_visible()


LONG = "/sweep?batches=1,4,256,512,1024,2048,3072,4096&budget=3600"
"""A form with batch sizes and a budget for minutes, so that its sweep runs on however slow the browser is."""


def measure(page: Any) -> None:
    """Start a real sweep, and wait for its first rounds."""
    expect(page.get_by_text("batch 1 to 4,096, at most 1 h")).to_be_visible()
    page.get_by_role("button", name="Measure this machine").click()
    expect(page.get_by_text(MEASURED)).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()


LEFT = re.compile(r"at most (?:(\d+) min)? ?(?:(\d+) s)? left")


def assert_ticks(counter: Any) -> None:
    """Check that the remaining time counts down in the browser, whatever the server does."""
    expect(counter).to_have_text(LEFT)
    before = counter.inner_text()
    expect(counter).not_to_have_text(before)
    assert left_s(counter.inner_text()) < left_s(before)


def left_s(words: str) -> int:
    """Parse the seconds of ``at most 59 min 07 s left``."""
    found = LEFT.fullmatch(words)
    assert found, words
    return 60 * int(found[1] or 0) + int(found[2] or 0)


def test_a_real_sweep_is_seen_by_every_tab_and_can_be_cancelled(own_server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{own_server}{LONG}")
    measure(page)
    second = open_tab(f"{own_server}/sweep")
    expect(second.get_by_text(MEASURED)).to_be_visible()
    second.get_by_text("Choices of the next sweep").click()
    expect(second.get_by_role("button", name="Measure this machine")).to_be_disabled()
    page.reload()
    expect(page.get_by_text(MEASURED)).to_be_visible()
    assert_ticks(page.locator("span.left"))

    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Your newest run")).to_be_visible()
    expect(second.get_by_text("Your newest run")).to_be_visible()
    expect(page.get_by_text("This sweep was cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()


def test_a_server_that_is_ended_leaves_a_sweep_that_can_be_resumed(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    with serve(tmp_path, studies=False) as address:  # the fixture ends it with SIGTERM
        measure(open_tab(f"{address}{LONG}"))
    store = Store(f"sqlite:///{tmp_path / 'data' / 'runs.sqlite3'}")
    newest = store.summaries()[0]
    store.close()
    assert newest.status == "interrupted"  # by the server itself: nothing else has opened its store since
    assert newest.rounds > 0


def test_a_real_cell_is_traced_from_the_page(own_server: str, open_tab: OpenTab) -> None:
    """Check that the button starts a worker, and that the page shows the new trace when it exists."""
    page = open_tab(f"{own_server}/overhead?run={make_run(1).id}")
    page.get_by_role("button", name="Trace this batch").click()
    expect(page.get_by_text("Where a step goes", exact=True)).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    expect(page.get_by_text(re.compile("measured")).first).to_be_visible()


def test_what_another_process_measures_is_counted_down_above_every_page(own_server: str, open_tab: OpenTab) -> None:
    """Check that the line appears and goes without a reload, and that its seconds count down between two requests."""
    page = open_tab(f"{own_server}/history")
    line = page.locator(".st-key-running")
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    assert line.count() == 0
    with machine_lock("A long sweep") as held:  # in the folder of the server's lock file
        held.ends_in(300)
        expect(line).to_contain_text("A long sweep")
        left = line.locator(".left")
        expect(left).to_contain_text("min")
        first = left.inner_text()
        expect(left).not_to_have_text(first)
        go(page, "Frontier")
        expect(line).to_contain_text("A long sweep")
    expect(line).to_have_count(0)
