"""Every page in a real browser, for what AppTest cannot see. Nothing here writes, so one server suffices."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.neighbours import planted
from core.studies.registry import example_id, kind_of, load_example
from simulated.runs import make_run
from tests.support.browser import assert_part_fits, assert_words_apart, choose, expect, go, settle

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]


def test_cold_deep_link_opens_the_run_inside_the_frame(own_server: str, open_tab: OpenTab) -> None:
    """Check the first request, before which the server knows of no page."""
    run = make_run(1)
    page = open_tab(f"{own_server}/crossover?run={run.id}")
    expect(page.get_by_text(run.name).first).to_be_visible()
    expect(page.get_by_role("link", name="History")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    assert page.url.endswith(f"/crossover?run={run.id}")
    page.reload()
    expect(page.get_by_text(run.name).first).to_be_visible()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()


def test_without_a_gpu_the_first_screen_answers_above_the_fold(
    tmp_path: Path, serve: Callable[..., Any], open_tab: OpenTab
) -> None:
    """Check sentence, button and both plots with their axes; another card gives another answer; a phone scrolls down
    only.
    """
    with serve(tmp_path, studies=False, variables={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}) as address:
        page = open_tab(address)
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(page.get_by_role("heading", name="From which batch size would a GPU beat this CPU?")).to_be_visible()
        expect(page.get_by_text(re.compile("^Modelled: T4 ")).first).to_be_visible()  # the chart has it, too
        expect(page.locator(".js-plotly-plot")).to_have_count(2)
        settle(page)
        for title in [*page.locator(".xtitle").all(), page.get_by_role("button", name="Measure this CPU")]:
            assert title.bounding_box()["y"] + title.bounding_box()["height"] < 900
        box = page.get_by_role("combobox", name="Modelled GPU")
        choose(page, box, "^H100-SXM ", typed="H100-SXM")
        expect(page.get_by_text(re.compile("^Modelled: H100-SXM ")).first).to_be_visible()
        for width in (1440, 1024):
            page.set_viewport_size({"width": width, "height": 900})
            settle(page)
            for chart in page.locator(".js-plotly-plot").all():
                assert_words_apart(chart)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.set_viewport_size({"width": 390, "height": 844})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("[data-testid=stException]").count() == 0


def test_dark_browser_gets_a_dark_page_and_dark_charts(server: str, open_tab: OpenTab) -> None:
    page = open_tab(server, color_scheme="dark")
    plot = page.locator(".js-plotly-plot .main-svg").first
    expect(plot).to_be_visible()
    expect(plot).to_have_css("background-color", "rgb(16, 22, 28)")
    assert page.locator(".stApp").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(16, 22, 28)"


@pytest.mark.parametrize("path", ["crossover", "overhead", "pipeline", "diagnosis", "frontier", "scaling"])
def test_a_narrow_window_holds_the_one_picture_and_nothing_overlaps(server: str, open_tab: OpenTab, path: str) -> None:
    """Check the run's verdict, and traces, diagnosis and studies of the shipped example."""
    address = f"?run={make_run(1).id}" if path == "crossover" else f"?run={load_example('sweep').id}"
    shown = {"frontier": example_id(kind_of("frontier")), "scaling": "study-s"}  # scaling ships no example
    study = f"&study={shown[path]}" if path in shown else ""
    page = open_tab(f"{server}/{path}{address}{study}")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    said = page.get_by_text(re.compile("measured" if path == "crossover" else "recorded"))
    expect(said.locator("visible=true").first).to_be_visible()  # other parts of it are folded
    assert page.locator("[data-testid=stException]").count() == 0
    page.set_viewport_size({"width": 1024, "height": 768})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024
    assert_words_apart(page.locator(".js-plotly-plot"))


@pytest.mark.parametrize("path", ["crossover", "overhead", "pipeline", "diagnosis"])
def test_the_sentence_and_most_of_the_picture_stand_above_the_fold(server: str, open_tab: OpenTab, path: str) -> None:
    page = open_tab(f"{server}/{path}?run={load_example('sweep').id}")
    page.set_viewport_size({"width": 1440, "height": 900})
    plot = page.locator(".js-plotly-plot").first
    expect(plot).to_be_visible()
    settle(page)
    box = plot.bounding_box()
    assert box["width"] > 1100, "the result takes the full width"
    assert box["y"] + box["height"] / 2 < 900
    assert page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight") < 2200


def test_a_part_of_the_evidence_is_drawn_once_it_is_opened(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/crossover?run={make_run(1).id}")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    page.get_by_text("Step time by batch size", exact=True).first.click()
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    page.get_by_text("Every step time", exact=True).first.click()
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


def test_the_frontier_map_is_read_out_with_its_sliders(server: str, open_tab: OpenTab) -> None:
    """Check a stored study: the map is drawn, its hover marks interpolated values, and the slider changes the slice."""
    page = open_tab(f"{server}/frontier?study=study-a")
    page.set_viewport_size({"width": 1024, "height": 768})
    plot = page.locator(".js-plotly-plot")
    title = page.get_by_text(re.compile("at depth [24]$")).first
    expect(title).to_contain_text("at depth 2")
    area = plot.locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    settle(page)
    size = area.bounding_box()
    area.hover(position={"x": 0.31 * size["width"], "y": 0.66 * size["height"]})
    expect(plot.locator(".hovertext")).to_contain_text("interpolated")
    page.get_by_role("slider", name="Map at depth").press("ArrowRight")
    expect(title).to_contain_text("at depth 4")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024
    assert page.locator("[data-testid=stException]").count() == 0


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_batch_page_draws_every_part(server: str, open_tab: OpenTab, width: int) -> None:
    """Check that charts of a folded part get their width when it opens, and that their texts do not overlap."""
    run = make_run(1)
    page = open_tab(f"{server}/batch?run={run.id}")
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.get_by_text("Time to the loss by batch (predicted)", exact=True).first).to_be_visible()
    parts = (("Throughput and time per sample", 3), ("Gradient noise scale", 3), ("Memory", 3), ("Cost", 1))
    for part, charts in parts:
        assert_part_fits(page, part, charts, width)


def modelled_field(page: Any) -> Any:
    """Open the folded part of the sweep's form in a narrow window and return the field for a modelled GPU."""
    page.set_viewport_size({"width": 1024, "height": 768})
    page.get_by_text("More: as proposed").click()
    box = page.get_by_role("combobox", name="Against a modelled GPU")
    expect(box).to_be_visible()
    return box


def test_a_modelled_gpu_is_chosen_like_a_target_and_goes_along(server: str, open_tab: OpenTab) -> None:
    """Check that its texts stay apart from the measured ones in a narrow window, and that no worker starts for it."""
    page = open_tab(f"{server}/sweep")
    box = modelled_field(page)
    choose(page, box, "^H100-SXM ", typed="H100-SXM")
    told = page.get_by_text(re.compile("Modelled: H100-SXM.*No worker ran for it"))
    expect(told).to_be_visible()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()
    go(page, "Crossover")
    expect(page.get_by_role("button", name="Share").first).to_be_visible()
    expect(told).to_be_visible()
    assert page.url.endswith(f"/crossover?run={make_run(1).id}&gpu=H100-SXM")
    settle(page)
    assert_words_apart(page.locator(".js-plotly-plot").first)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024


def test_a_list_of_options_stays_open_while_other_programs_begin_to_work(server: str, open_tab: OpenTab) -> None:
    """Plant a neighbour while a list is open: the line that names it must not move the page."""
    page = open_tab(f"{server}/sweep")
    box = modelled_field(page)
    box.scroll_into_view_if_needed()
    page.wait_for_timeout(1_000)  # the script that the click began, and scrolling, close it
    settle(page)
    box.click()
    expect(page.get_by_role("option").first).to_be_visible()
    with planted("one core"):
        expect(page.get_by_text(re.compile(r"Other programs use [\d.]+ cores:"))).to_be_visible()
        page.wait_for_timeout(500)
        assert page.get_by_role("option").first.is_visible()


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_hardware_page_draws_modelled_curves_that_say_so(server: str, open_tab: OpenTab, width: int) -> None:
    """Check that curves are dashed, hollow and named in the drawn chart, every part without an exception, texts
    apart.
    """
    run = make_run(1)
    page = open_tab(f"{server}/hardware?run={run.id}&gpus=T4~H100-SXM")
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.get_by_text(re.compile("^Where each card is faster")).first).to_be_visible()
    for part, charts in (("All cards", 1), ("What limits a card", 3), ("Host overhead", 1), ("Your own card", 1)):
        assert_part_fits(page, part, charts, width)
    page.locator("[data-testid=stExpander] summary").filter(has_text="Step times, measured and modelled").click()
    plot = page.locator(".js-plotly-plot").nth(1)
    expect(plot.get_by_text("T4 (modelled)", exact=True)).to_be_visible()
    expect(plot.locator(".annotation-text", has_text=re.compile("^modelled$"))).to_be_visible()
    dashed = plot.locator(".scatterlayer .js-line").evaluate_all("found => found.map(e => e.style.strokeDasharray)")
    assert len([dash for dash in dashed if dash and dash != "none"]) == 4  # two curves, two bands' bounds


def test_another_site_may_frame_results_only(server: str, open_tab: OpenTab) -> None:
    """Check framing, since a click meant for something else must not reach a button."""
    page = open_tab(f"{server}/crossover?run={make_run(1).id}")
    foreign = server.replace("localhost", "127.0.0.1")  # another origin
    for query, shown in ((f"run={make_run(1).id}&embed=true", True), (f"run={make_run(1).id}", False)):
        page.goto(f"{foreign}/crossover?embed=true")
        page.evaluate("at => { document.body.innerHTML = `<iframe src='${at}' width=1200 height=900></iframe>` }",
                      f"{server}/crossover?{query}")  # fmt: skip
        verdict = page.frame_locator("iframe").get_by_text("Verdict", exact=True)
        expect(verdict).to_have_count(int(shown))
        if not shown:
            page.wait_for_function("document.querySelector('iframe').contentDocument === null")
            assert page.frames[-1].url.startswith("chrome-error:")
