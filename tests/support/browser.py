"""Helpers for browser tests."""

from typing import Any

from core.ui import menu

PATIENCE_MS = 60_000  # TensorFlow starts within seconds on an idle machine, and within a minute on a busy one


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect(locator)


def settle(page: Any) -> None:
    """Wait until the page's script has ended and every chart is drawn at its final width."""
    expect(page.locator(".stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.wait_for_function("""() => [...document.querySelectorAll(".js-plotly-plot")].every(
        plot => !plot.offsetWidth || Math.abs(plot._fullLayout.width - plot.offsetWidth) < 2)""")


def go(page: Any, name: str) -> None:
    """Go to a page by the menu, whatever its group."""
    group = next(group for group, names in menu.groups().items() if name.lower() in names)
    if group:
        page.get_by_role("button", name=group, exact=True).click()
    page.get_by_role("menuitem" if group else "link", name=name, exact=True).click()


def assert_words_apart(chart: Any) -> None:
    """Check that no word of a chart overlaps another or leaves its frame; title and notes stand outside."""
    texts = chart.locator(".annotation-text, .legendtext, .xtitle, .xtick text")
    boxes = [box for text in texts.all() if text.is_visible() and (box := text.bounding_box())]
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
