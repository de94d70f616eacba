"""Helpers for browser tests."""

import re
from typing import Any

from core.ui import menu

# Of a chart and of its visible words; in one look, since the page may still move
BOXES = """chart => [chart, ...chart.querySelectorAll(".annotation-text, .legendtext, .xtitle, .xtick text")]
    .filter(element => element.checkVisibility({visibilityProperty: true}))
    .map(element => element.getBoundingClientRect())
    .filter(box => box.width && box.height)
    .map(({x, y, width, height}) => ({x, y, width, height}))"""
PATIENCE_MS = 60_000  # TensorFlow starts within seconds on an idle machine, and within a minute on a busy one


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect(locator)


def settle(page: Any) -> None:
    """Wait until the page's script has ended, our CSS applies and every chart is drawn at its final width."""
    expect(page.locator(".stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.wait_for_function(
        """() => [...document.querySelectorAll("style")].some(style => style.textContent.includes("page-script"))"""
    )
    page.wait_for_function("""() => [...document.querySelectorAll(".js-plotly-plot")].every(
        plot => !plot.offsetWidth || Math.abs(plot._fullLayout.width - plot.offsetWidth) < 2)""")


def choose(page: Any, box: Any, words: str, typed: str | None = None) -> None:
    """Choose an option of a list, which a script that still runs would close again.

    Args:
        words: A pattern of the option's text.
        typed: What to type to bring it to the top of a long list.
    """
    from playwright.sync_api import TimeoutError as Closed

    for patience_ms in (5_000, 10_000, PATIENCE_MS):
        settle(page)
        box.click()
        if typed:
            box.fill(typed)
        try:
            return page.get_by_role("option", name=re.compile(words)).click(timeout=patience_ms)
        except Closed:
            page.keyboard.press("Escape")
    raise AssertionError("the list does not stay open")


def go(page: Any, name: str) -> None:
    """Go to a page by the menu, whatever its group."""
    group = next(group for group, names in menu.groups().items() if name.lower() in names)
    if group:
        page.get_by_role("button", name=group, exact=True).click()
    page.get_by_role("menuitem" if group else "link", name=name, exact=True).click()


def assert_words_apart(chart: Any) -> None:
    """Check that no word of a chart overlaps another or leaves its frame; title and notes stand outside."""
    frame, *boxes = chart.evaluate(BOXES)
    assert len(boxes) >= 6
    for i, a in enumerate(boxes):
        assert a["x"] >= frame["x"] - 1
        assert a["x"] + a["width"] <= frame["x"] + frame["width"] + 1
        for b in boxes[i + 1 :]:
            apart = (
                a["x"] + a["width"] <= b["x"] + 2 or b["x"] + b["width"] <= a["x"] + 2
                or a["y"] + a["height"] <= b["y"] + 3 or b["y"] + b["height"] <= a["y"] + 3
            )  # fmt: skip
            assert apart, (a, b)


def assert_part_fits(page: Any, part: str, charts: int, width: int) -> None:
    """Check that a folded part opens without an exception, and fits into the width with its charts; close it again.

    ``charts`` is then the number on the whole page.
    """
    summary = page.locator("[data-testid=stExpander] summary").filter(has_text=part).first
    expect(page.locator(".js-plotly-plot:visible").first).to_be_visible()
    settle(page)
    before = page.locator(".js-plotly-plot:visible").count()
    summary.click()
    expect(page.locator(".js-plotly-plot:visible")).to_have_count(charts)
    settle(page)
    for chart in page.locator(".js-plotly-plot:visible").all():
        assert_words_apart(chart)
    assert page.locator("[data-testid=stException]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    summary.click()
    expect(page.locator(".js-plotly-plot:visible")).to_have_count(before)
