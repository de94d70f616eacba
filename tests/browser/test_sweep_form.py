"""The Sweep form in a real browser: what is visible without scrolling, and that its address restores it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.browser import expect, settle

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]
FIRST = ("Family", "Depth (hidden layers)", "Width (units per layer)", "Smallest batch", "Largest batch", "Prefetch",
         "Device, target 1", "Threads, target 1", "Device, target 2", "Threads, target 2")  # fmt: skip


def field(page: Any, name: str) -> Any:
    return page.get_by_role("spinbutton", name=name).or_(page.get_by_role("combobox", name=name)).first


def bottom(locator: Any) -> float:
    box = locator.bounding_box()
    return float(box["y"] + box["height"])


def test_what_decides_a_sweep_is_seen_without_scrolling(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/sweep")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_text("More: as proposed")).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    settle(page)
    for name in FIRST:
        assert bottom(field(page, name)) <= 900, name
    assert bottom(page.get_by_text("More: as proposed")) <= 900
    assert page.locator("[data-testid=stHeadingWithActionElements] h1").count() == 1
    main = page.locator("[data-testid=stMain]").locator("button:visible, input:visible, a[href]:visible")
    expect(main.first).to_have_text(re.compile("Measure this machine"))


def test_on_a_phone_the_button_comes_before_everything(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/sweep")
    page.set_viewport_size({"width": 390, "height": 844})
    button = page.get_by_role("button", name="Measure this machine")
    expect(button).to_be_visible()
    settle(page)
    assert bottom(button) <= 844
    assert bottom(button) < bottom(page.get_by_text("Your newest run", exact=True))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_settings_come_back_after_a_reload_and_go_with_the_browsers_back(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/sweep?budget=45&batches=1:256&target=cpu,threads=1&target=cpu,execution=eager")
    expect(page.get_by_text(re.compile("batch 1 to 256, at most 45 s"))).to_be_visible()
    expect(page.get_by_text("More: 45 s budget")).to_be_visible()
    width = field(page, "Width (units per layer)")
    settle(page)
    width.fill("64")
    width.press("Enter")
    expect(page.get_by_text(re.compile("784-64-64-10 .* batch 1 to 256, at most 45 s")).first).to_be_visible()
    page.wait_for_url(re.compile("network=784-64-64-10"))
    page.reload()
    expect(page.get_by_text(re.compile("784-64-64-10 .* batch 1 to 256, at most 45 s")).first).to_be_visible()
    expect(field(page, "Width (units per layer)")).to_have_value("64")
    expect(field(page, "Execution, target 2")).to_have_value("eager")
    settle(page)
    page.go_back()
    expect(page.get_by_text(re.compile("784-512-512-10 .* batch 1 to 256, at most 45 s")).first).to_be_visible()


def test_what_is_folded_stays_open_while_its_label_tells_what_changed(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/sweep")
    page.get_by_text("More: as proposed").click()
    budget = page.get_by_role("spinbutton", name="Budget (seconds)")
    settle(page)
    budget.fill("30")
    budget.press("Enter")
    expect(page.get_by_text("More: 30 s budget")).to_be_visible()
    settle(page)
    expect(budget).to_be_visible()


def test_a_hostile_address_is_refused_in_a_sentence(server: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{server}/sweep?target=cpu,python=/bin/sh&budget=45")
    expect(page.get_by_text(re.compile("address were left out: it names a program to run"))).to_be_visible()
    expect(page.get_by_text(re.compile("at most 1 min 30 s"))).to_be_visible()
    expect(page.get_by_role("button", name="Measure this machine")).to_be_enabled()
