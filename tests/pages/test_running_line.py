"""The line above every page while anything is measured on this machine."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.studies.registry import kinds
from core.studies.selfcheck.run import SELF_CHECK
from core.studies.sweep.trace import TRACE
from core.ui import menu, running_line
from core.ui.method.demo import PITFALLS
from simulated.pages import open_page, running, text_of

TITLE = "Map of a network"


def countdowns(at: AppTest) -> list[str]:
    return [str(element.proto) for element in at.get("bidi_component") if "left_s" in str(element.proto)]


def links(at: AppTest) -> dict[str, str]:
    return {link.label: link.proto.page for link in at.page_link if link.label.startswith("To ")}


DRAWN = [(kind, name) for name, page in menu.pages().items() for kind in (*page.measures, *page.follows)]
FOLDED = [(kind, name) for name, page in menu.pages().items() for kind in page.folded]
COMMAND_ONLY = {"validation"}


def test_every_kind_of_study_and_every_other_measurement_has_one_page() -> None:
    homes = [kind for page in menu.pages().values() for kind in (*page.measures, *page.folded)]
    assert sorted(homes) == sorted({*kinds(), *(task.name for task in (TRACE, SELF_CHECK, PITFALLS))} - COMMAND_ONLY)
    opened = [kind for page in menu.pages().values() for kind in page.opens]
    assert sorted(opened) == sorted(kinds())


@pytest.mark.parametrize("kind", sorted(COMMAND_ONLY))
def test_a_study_without_a_page_of_its_own_has_no_link_and_can_be_cancelled(engine: Any, kind: str) -> None:
    engine.jobs.show(running(kind, TITLE))
    at = open_page("history")
    assert TITLE in at.markdown[0].value
    assert links(at) == {}
    assert not at.button(key="running-cancel").disabled


@pytest.mark.pages
@pytest.mark.parametrize("page", [page for page in menu.pages() if page != "frontier"])
def test_what_is_measured_stands_above_every_page_with_its_time_its_page_and_cancel(engine: Any, page: str) -> None:
    engine.jobs.show(running("frontier", TITLE))
    at = open_page(page)
    assert TITLE in at.markdown[0].value
    assert countdowns(at)
    assert links(at) == {"To Frontier": "frontier"}
    at.button(key="running-cancel").click().run()
    assert engine.jobs.cancelled == 1


@pytest.mark.pages
@pytest.mark.parametrize(("kind", "page"), DRAWN)
def test_a_page_that_shows_it_anyway_has_it_once(engine: Any, kind: str, page: str) -> None:
    if kind != "sweep":  # which is shown with its record
        engine.jobs.show(running(kind, TITLE))
    at = open_page(page)
    assert "running-cancel" not in [button.key for button in at.button]
    assert (f"cancel_{kind}" in [button.key for button in at.button]) is (kind != "sweep")


@pytest.mark.parametrize(("kind", "page"), FOLDED)
def test_a_measurement_in_a_part_that_may_be_folded_can_be_cancelled_above_it(
    engine: Any, kind: str, page: str
) -> None:
    engine.jobs.show(running(kind, TITLE))
    at = open_page(page)
    assert TITLE in at.markdown[0].value
    assert links(at) == {}
    assert not at.button(key="running-cancel").disabled


def test_what_another_process_measures_is_said_with_its_time_and_cannot_be_cancelled_here(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.jobs.elsewhere = "Another Breakeven process (pid 7) has been measuring since 12:03 UTC: x."
    monkeypatch.setattr(running_line, "left_s", lambda: 65.0)
    at = open_page("history")
    assert "(pid 7)" in at.markdown[0].value
    assert "65" in countdowns(at)[0]
    assert "running-cancel" not in [button.key for button in at.button]
    monkeypatch.setattr(running_line, "left_s", lambda: None)
    assert countdowns(open_page("history")) == []


@pytest.mark.parametrize("embedded", [False, True])
def test_without_a_measurement_or_inside_another_page_there_is_no_line(engine: Any, embedded: bool) -> None:
    if embedded:
        engine.jobs.show(running("frontier", TITLE))
    at = open_page("crossover", embedded=embedded)
    assert TITLE not in text_of(at)
    assert countdowns(at) == []


def test_one_that_stops_says_so(engine: Any) -> None:
    engine.jobs.show(running("frontier", TITLE))
    engine.jobs.stopping = True
    at = open_page("history")
    assert running_line.STOPPING in text_of(at)
    assert at.button(key="running-cancel").disabled
