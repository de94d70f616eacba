"""Properties of every page: no other host requested, one heading, a title, distinct names, keys, contrast, a phone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from core.ui import menu
from simulated.runs import make_run
from tests.support.axe import findings
from tests.support.browser import expect, settle

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Any]
EVERY = tuple(menu.pages())
OF_A_RUN = ("crossover", "overhead", "diagnosis", "batch", "hardware")

MAIN_BUTTON = {"start": "Measure this CPU", "sweep": "Measure this machine"}
"""Pages whose purpose is to press one button."""
TAB_STOPS = 8
FIELDS = ("combobox", "spinbutton", "textbox", "button", "slider", "checkbox", "switch")
PARTS = ("Increment", "Decrement", "Open")
"""Parts of Streamlit's own fields, whose names are those of the fields around them."""

ON_A_PHONE = "The menu in Streamlit's sidebar, where a phone has it: a list within its list has no entry around it."
STREAMLITS: dict[str, tuple[str, str]] = {
    "list": ("stSidebarNavItems", ON_A_PHONE),
    "listitem": ('^<li class="st-emotion-cache-', ON_A_PHONE),
    "presentation-role-conflict": (
        "stFileUploaderDropzone",
        "The field for files, which stands open on Fleet: its frame has the name that its button has, too.",
    ),
}
"""Exceptions by axe-core rule: a pattern of Streamlit's own HTML that breaks it, and the reason for leaving it."""

OUTSIDE = """() => [...document.querySelectorAll("[class*=st-key-plot-]")].flatMap(plot => {
    const frame = plot.getBoundingClientRect();
    return [...plot.querySelectorAll(".legendtext, .xtitle, .xtick text")].filter(text => {
        const box = text.getBoundingClientRect();
        return box.width && box.height && (
            box.left < frame.left - 1 || box.right > frame.right + 1 ||
            box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    }).map(text => text.textContent);
})"""
"""The words of pictures that lie outside their frames, in one look, since a page may still move."""


@pytest.fixture
def opened(server: str, open_tab: OpenTab) -> Iterator[Callable[..., Any]]:
    """Yield a function that opens a page in its first state, fully drawn, and check that no other host is requested."""
    asked: set[str] = set()

    def open_page(name: str, size: tuple[int, int] = (1440, 900), **options: Any) -> Any:
        query = f"?run={make_run(1).id}" if name in OF_A_RUN else ""
        page = open_tab("about:blank", **options)
        page.on("request", lambda request: asked.add(request.url))
        page.on("websocket", lambda socket: asked.add(socket.url))
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.goto(f"{server}/{name}{query}")
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        settle(page)
        return page

    yield open_page
    assert hosts_of(asked) == {urlsplit(server).netloc}


def hosts_of(asked: Iterable[str]) -> set[str]:
    return {urlsplit(url).netloc for url in asked if urlsplit(url).scheme not in ("data", "blob", "about")}


def named_fields(snapshot: str) -> list[tuple[str, str]]:
    """Return role and name of everything operable, except each chart's menu: the chart has a name, its menu has
    none.
    """
    found, chart = [], -1
    for line in snapshot.splitlines():
        depth = len(line) - len(line.lstrip())
        if chart >= 0 and depth > chart:
            continue
        chart = depth if re.match(r"\s*- '?figure\b", line) else -1
        known = re.match(rf"""\s*- '?({"|".join(FIELDS)}) "([^"]*)\"""", line)
        if known and known[2] not in PARTS:
            found.append((known[1], known[2]))
    return found


def ours(page: Any) -> list[tuple[str, str, str]]:
    """Return what axe-core finds on the page, apart from what is Streamlit's own: rule, place and HTML."""
    found: list[tuple[str, str, str]] = []
    for _ in range(5):  # colours fade from one theme into the other
        found = [
            (rule, where, html[:300])
            for rule, where, html in findings(page)
            if rule not in STREAMLITS or not re.search(STREAMLITS[rule][0], html)
        ]
        if not found:
            break
        page.wait_for_timeout(500)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_a_page_has_one_heading_an_icon_a_title_of_its_own_names_that_differ_and_nothing_that_axe_finds(
    opened: Callable[..., Any], name: str
) -> None:
    page = opened(name)
    icon = page.locator("link[rel*=icon]").first.get_attribute("href")
    assert "/media/" in icon, icon
    page.evaluate("icon => fetch(icon).then(reply => { if (!reply.ok) throw new Error(reply.status) })", icon)
    title = page.title()
    assert title.endswith(f"{menu.pages()[name].title} · Breakeven")
    assert (make_run(1).name in title) is (name in OF_A_RUN)
    assert not page.locator("h1").first.inner_text().startswith("<")
    fields = named_fields(page.locator("[data-testid=stMain]").aria_snapshot())
    twice = {field: count for field, count in Counter(fields).items() if count > 1 and field != ("button", "Help")}
    assert twice == {}
    assert [found for found in fields if not found[1].strip() or "**" in found[1]] == []
    assert ours(page) == [], json.dumps(ours(page), indent=1)


@pytest.mark.parametrize("name", MAIN_BUTTON)
def test_the_main_button_is_reached_by_few_tab_stops(opened: Callable[..., Any], name: str) -> None:
    for _ in range(5):  # a redraw in between loses the focus
        page = opened(name)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "Skip to main content"  # past the menu
        page.keyboard.press("Enter")
        expect(page.locator("[data-testid=stMain]")).to_be_focused()
        page.wait_for_timeout(1000)
        stops = []
        for _ in range(TAB_STOPS - 1):
            page.keyboard.press("Tab")
            stops.append(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel"))
            if MAIN_BUTTON[name] in (stops[-1] or ""):
                return
    pytest.fail(f"not in {stops}")


@pytest.mark.parametrize("name", EVERY)
def test_a_phone_shows_a_page_without_scrolling_sideways_or_covered_words_or_anything_that_axe_finds_in_the_dark(
    opened: Callable[..., Any], name: str
) -> None:
    page = opened(name, (390, 844), color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("[data-testid=stMain]").evaluate("e => e.scrollWidth") <= 390
    lines = page.locator("h2, h3").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))"
    )
    assert max(lines, default=0) < 5, "headlines take four lines at most"
    header = page.locator("[data-testid=stHeader]").bounding_box()
    heading = page.get_by_role("heading", level=1).bounding_box()
    assert heading["y"] >= header["y"] + header["height"] - 1
    assert page.evaluate(OUTSIDE) == []
    assert ours(page) == [], json.dumps(ours(page), indent=1)


def test_a_charts_menu_comes_with_a_tap_and_icons_are_silent(opened: Callable[..., Any]) -> None:
    page = opened("crossover", (390, 844), has_touch=True, is_mobile=True)
    menu_of = page.locator(".js-plotly-plot .modebar").first
    assert menu_of.evaluate("e => getComputedStyle(e).opacity") == "0", "it would cover the legend"
    page.locator(".js-plotly-plot").first.tap()
    expect(menu_of).to_have_css("opacity", "1")
    assert " icon" not in page.locator("[data-testid=stMain]").aria_snapshot()
