"""The real server in a real browser: what AppTest cannot see. Skipped, with the reason, where there is no Chromium."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.examples import load_example
from core.store import Store
from tests.support.frontier_studies import make_frontier_study
from tests.support.noises import make_noise_study
from tests.support.runs import make_run

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so no browser test can run")

ROOT = Path(__file__).parents[1]
PATIENCE_MS = 60_000  # TensorFlow starts within seconds on an idle machine, and within a minute on a busy one
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(data_dir: Path, tmp_path: Path) -> Iterator[str]:
    """A server with one stored run, and its address. Ends with all its children."""
    store = Store(f"sqlite:///{data_dir / 'runs.sqlite3'}")
    store.begin(make_run(1, label="measured"))
    store.finish(make_run(1).id, "finished", 17.0)
    store.close()
    address = f"http://localhost:{(port := free_port())}"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    environment = {**os.environ, "BREAKEVEN_DATA_DIR": str(data_dir), "BREAKEVEN_LOCK_DIR": str(tmp_path)}
    log = (tmp_path / "server.log").open("wb")
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        _wait_for(lambda: _healthy(address), process)
        yield address
        assert process.poll() is None, "the server died"
        assert "tensorflow" not in _loaded(process.pid)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.wait(40)
        log.close()
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as reply:
            return bool(reply.read() == b"ok")
    except OSError:
        return False


def _wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if ready():
            return
        assert process.poll() is None, "the server did not start"
        time.sleep(0.2)
    raise AssertionError("the server did not answer")


def _loaded(pid: int) -> str:
    """Shared libraries mapped into the server, where the system shows them."""
    maps = Path(f"/proc/{pid}/maps")
    return maps.read_text().lower() if maps.exists() else ""


@pytest.fixture
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


def open_tab(browser: Any, address: str, **context: Any) -> Any:
    page = browser.new_context(viewport={"width": 1280, "height": 900}, **context).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    return page


def expect(locator: Any) -> Any:
    return sync_api.expect(locator)


def test_cold_deep_link_opens_the_run_inside_the_frame(server: str, browser: Any) -> None:
    run = make_run(1)
    page = open_tab(browser, f"{server}/crossover?run={run.id}")
    expect(page.get_by_role("heading", name=run.name)).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("link", name="History")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(5, timeout=PATIENCE_MS)
    assert page.url.endswith(f"/crossover?run={run.id}")
    page.reload()
    expect(page.get_by_role("heading", name=run.name)).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()


@pytest.mark.parametrize(
    ("page_name", "number"),
    [("crossover", 1), ("overhead", 0), ("pipeline", 0), ("pipeline", 2), ("diagnosis", 0), ("frontier", 0)],
)
def test_nothing_overlaps_in_a_narrow_window(server: str, browser: Any, page_name: str, number: int) -> None:
    run_id = make_run(1).id if page_name == "crossover" else load_example().id
    page = open_tab(browser, f"{server}/{page_name}?run={run_id}")
    page.set_viewport_size({"width": 1024, "height": 768})
    expect(page.locator(".js-plotly-plot .infolayer .annotation-text").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_timeout(1000)  # charts redraw once at their final width
    chart = page.locator(".js-plotly-plot").nth(number)
    assert_words_apart(chart)


def assert_words_apart(chart: Any) -> None:
    """No word of a chart overlaps another or leaves its frame."""
    texts = chart.locator(".annotation-text, .legendtext, .xtitle, .xtick text")
    boxes = [box for text in texts.all() if (box := text.bounding_box())]
    assert len(boxes) >= 6
    frame = chart.bounding_box()
    for i, a in enumerate(boxes):
        assert a["x"] >= frame["x"] - 1
        assert a["x"] + a["width"] <= frame["x"] + frame["width"] + 1
        for b in boxes[i + 1 :]:
            apart = (
                a["x"] + a["width"] <= b["x"] + 2 or b["x"] + b["width"] <= a["x"] + 2
                or a["y"] + a["height"] <= b["y"] + 3 or b["y"] + b["height"] <= a["y"] + 3
            )  # fmt: skip
            assert apart, (a, b)


def test_dark_browser_gets_a_dark_page_and_dark_charts(server: str, browser: Any) -> None:
    page = open_tab(browser, server, color_scheme="dark")
    plot = page.locator(".js-plotly-plot .main-svg").first
    expect(plot).to_be_visible(timeout=PATIENCE_MS)
    expect(plot).to_have_css("background-color", "rgb(16, 22, 28)")
    assert page.locator(".stApp").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(16, 22, 28)"


def test_an_upload_is_kept_once_and_a_bad_one_is_refused(server: str, browser: Any) -> None:
    page = open_tab(browser, f"{server}/history")
    page.get_by_text("Import a run from a file").click()
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


def test_a_real_sweep_is_seen_by_every_tab_and_can_be_cancelled(server: str, browser: Any) -> None:
    page = open_tab(browser, server)
    page.get_by_role("radio", name="List").or_(page.get_by_role("button", name="List")).first.click()
    sizes = page.get_by_role("textbox", name="Batch sizes to measure")
    sizes.fill("1, 4")
    sizes.press("Enter")
    expect(page.get_by_text("2 batch sizes: 1, 4.")).to_be_visible()
    page.get_by_role("button", name="Measure this machine").click()
    expect(page.get_by_text("Measuring this machine")).to_be_visible()
    expect(page.get_by_text("Estimate so far", exact=True)).to_be_visible(timeout=3 * PATIENCE_MS)

    second = open_tab(browser, server)
    expect(second.get_by_text("Measuring this machine")).to_be_visible()
    expect(second.get_by_role("button", name="Measure this machine")).to_be_disabled()
    page.reload()
    expect(page.get_by_text("Measuring this machine")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Your newest run")).to_be_visible(timeout=2 * PATIENCE_MS)
    expect(second.get_by_text("Your newest run")).to_be_visible()
    expect(page.get_by_text("This sweep was cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()


@pytest.mark.parametrize(
    ("path", "charts"),
    [("overhead", 2), ("pipeline", 3), ("diagnosis", 1), ("frontier", 1)],
    ids=lambda value: str(value),
)
def test_the_shipped_examples_are_drawn(server: str, browser: Any, path: str, charts: int) -> None:
    """Traces, diagnosis and pipeline study of the example: every chart has its place and no page an exception."""
    page = open_tab(browser, f"{server}/{path}?run={load_example().id}")
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".js-plotly-plot")).to_have_count(charts, timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile("recorded")).first).to_be_visible()
    assert page.locator("[data-testid=stException]").count() == 0
    page.set_viewport_size({"width": 1024, "height": 768})
    page.wait_for_timeout(500)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1024


def test_the_frontier_map_is_read_out_with_its_sliders(server: str, browser: Any, data_dir: Path) -> None:
    """A stored study: the map is drawn, its hover says what is interpolated, and the slider turns to another slice."""
    store = Store(f"sqlite:///{data_dir / 'runs.sqlite3'}")
    store.add_study("frontier", "study-a", None, make_frontier_study().to_json())
    store.close()
    page = open_tab(browser, f"{server}/frontier?study=study-a")
    page.set_viewport_size({"width": 1024, "height": 768})
    plot = page.locator(".js-plotly-plot")
    expect(plot.get_by_text("at depth 2")).to_be_visible(timeout=PATIENCE_MS)
    area = plot.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    size = area.bounding_box()
    area.hover(position={"x": 0.31 * size["width"], "y": 0.66 * size["height"]})
    expect(plot.locator(".hovertext")).to_contain_text("interpolated")
    page.get_by_role("slider", name="Map at depth").press("ArrowRight")
    expect(plot.get_by_text("at depth 4")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024
    assert page.locator("[data-testid=stException]").count() == 0


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_batch_page_draws_every_tab(server: str, browser: Any, data_dir: Path, width: int) -> None:
    """Charts of a tab that was closed get their width when it opens, and their words stay apart."""
    run = make_run(1)
    store = Store(f"sqlite:///{data_dir / 'runs.sqlite3'}")
    store.add_study("noise", "20260107-noise", run.id, make_noise_study(run).to_json())
    store.close()
    page = open_tab(browser, f"{server}/batch?run={run.id}")
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.get_by_text("Time to the loss by batch (predicted)", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    for tab, charts in (("Batch", 3), ("Noise scale", 2), ("Memory", 2), ("Cost", 0)):
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.locator(".js-plotly-plot:visible")).to_have_count(charts, timeout=PATIENCE_MS)
        page.wait_for_timeout(1000)  # charts redraw once at their final width
        for chart in page.locator(".js-plotly-plot:visible").all():
            assert_words_apart(chart)
        assert page.locator("[data-testid=stException]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_modelled_gpu_is_chosen_like_a_target_and_goes_along(server: str, browser: Any) -> None:
    """Its words stay apart from the measured ones in a narrow window, and no worker is started for it."""
    page = open_tab(browser, server)
    page.set_viewport_size({"width": 1024, "height": 768})
    box = page.get_by_role("combobox", name="Against a modelled GPU")
    box.click(timeout=PATIENCE_MS)
    box.fill("H100-SXM")
    page.get_by_role("option", name="H100-SXM (modelled, runs no worker)").click()
    told = page.get_by_text(re.compile("Modelled: H100-SXM.*No worker ran for it"))
    expect(told).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()
    page.get_by_role("link", name="Crossover").click()
    expect(page.get_by_role("heading", name="Take it along")).to_be_visible(timeout=PATIENCE_MS)
    expect(told).to_be_visible()
    assert page.url.endswith(f"/crossover?run={make_run(1).id}&gpu=H100-SXM")
    page.wait_for_timeout(1000)  # charts redraw once at their final width
    for number in (0, 1):
        assert_words_apart(page.locator(".js-plotly-plot").nth(number))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_hardware_page_draws_modelled_curves_that_say_so(server: str, browser: Any, width: int) -> None:
    """Dashed, hollow and named in the drawn picture itself; every tab without an exception, words apart."""
    run = make_run(1)
    page = open_tab(browser, f"{server}/hardware?run={run.id}&gpus=T4~H100-SXM")
    page.set_viewport_size({"width": width, "height": 900})
    plot = page.locator(".js-plotly-plot").first
    expect(plot.get_by_text("T4 (modelled)", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    expect(plot.locator(".annotation-text", has_text=re.compile("^modelled$"))).to_be_visible()
    dashed = plot.locator(".scatterlayer .js-line").evaluate_all("found => found.map(e => e.style.strokeDasharray)")
    assert len([dash for dash in dashed if dash and dash != "none"]) == 2
    for tab, charts in (("Curves", 2), ("All cards", 0), ("What limits it", 2), ("Host and evidence", 0),
                        ("Your own card", 0)):  # fmt: skip
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.locator(".js-plotly-plot:visible")).to_have_count(charts, timeout=PATIENCE_MS)
        page.wait_for_timeout(1000)  # charts redraw once at their final width
        for chart in page.locator(".js-plotly-plot:visible").all():
            assert_words_apart(chart)
        assert page.locator("[data-testid=stException]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_real_cell_is_traced_from_the_page(server: str, browser: Any) -> None:
    """The button starts a worker, and the page turns to the new trace when it is there."""
    page = open_tab(browser, f"{server}/overhead?run={make_run(1).id}")
    page.get_by_role("button", name="Trace this cell").click()
    expect(page.get_by_text("Where a step goes", exact=True)).to_be_visible(timeout=2 * PATIENCE_MS)
    expect(page.locator(".js-plotly-plot")).to_have_count(2, timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile("measured")).first).to_be_visible()
