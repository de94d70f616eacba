"""Parts of pages that are drawn again: nothing polls, questions are held back until there is something new."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.studies.pauses import Pauses
from core.ui import news, registry
from simulated.pages import fake_engine, open_page, running, sweeping
from simulated.runs import make_run

ROOT = Path(__file__).parents[2]


def asked(at: AppTest) -> dict[str, tuple[bool, bool]]:
    """Return by part of the page if it waits for changes, and for pauses."""
    parts = {}
    for element in at.get("bidi_component"):
        if "breakeven/news" in element.proto.json:
            address = json.loads(element.proto.json)["address"]
            key = element.proto.id.rpartition("-news-")[2]
            parts[key] = ("seen=&" not in address, address.endswith("pauses=1"))
    return parts


def test_only_the_warning_before_a_sweep_polls() -> None:
    sources = [*(ROOT / "core" / "ui").rglob("*.py"), *(ROOT / "pages").glob("*.py")]
    assert len(sources) > 50
    assert [path.name for path in sources if "run_every" in path.read_text(encoding="utf-8")] == ["neighbours.py"]


@pytest.mark.parametrize(("page", "charts"), [("sweep", "estimate"), ("frontier", "frontier"), ("fleet", "fleet")])
def test_charts_wait_for_pauses_and_the_line_for_changes_too(engine: Any, page: str, charts: str) -> None:
    engine.jobs.show(sweeping(make_run(5, status="running")) if page == "sweep" else running(page))
    assert asked(open_page(page)) == {f"progress-{page}": (True, True), charts: (False, True)}


@pytest.mark.parametrize("measures", [False, True])
def test_on_other_pages_only_changes_are_waited_for(engine: Any, measures: bool) -> None:
    if measures:
        engine.jobs.show(sweeping(make_run(5, status="running")))
    assert asked(open_page("history")) == {"running": (True, False)}


class Browser:
    """A request to the server, held on an event loop in its own thread."""

    def __init__(self, seen: str, pauses: bool) -> None:
        self.sent: list[str] = []
        self._leaves = threading.Event()
        self.query_params = {"seen": seen, "pauses": str(int(pauses))}
        self._loop = asyncio.new_event_loop()
        self._answer = self._loop.create_task(news.answer(self))  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(self._answer)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def accept(self) -> None:
        pass

    async def receive(self) -> None:
        """Wait for the message that comes only when the tab is closed."""
        while not self._leaves.is_set():
            await asyncio.sleep(0.005)

    async def send_text(self, text: str) -> None:
        self.sent.append(text)

    async def close(self) -> None:
        pass

    def told(self) -> list[str]:
        """Return what was sent, once the request has ended."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.sent

    def leave(self) -> None:
        self._leaves.set()

    def lose_the_server(self) -> None:
        """Cancel the answer, as a server that ends does."""
        self._loop.call_soon_threadsafe(self._answer.cancel)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(news, "LOOK_S", 0.01)
    made = fake_engine()
    monkeypatch.setattr(registry, "engine", lambda: made)
    yield made
    made.store.close()


def waits(is_so: Callable[[], bool]) -> None:
    """Let the thread of a question get there."""
    for _ in range(2_000):
        if is_so():
            return
        threading.Event().wait(0.005)
    raise AssertionError


def test_a_question_about_changes_is_held_until_one(served: Any) -> None:
    browser = Browser(news.state(served.jobs), pauses=False)
    waits(lambda: bool(served.jobs.pauses._waiting))
    assert browser.sent == []
    served.jobs.pauses.change()
    assert browser.told() == [news.NEWS]


def test_what_has_changed_since_is_told_at_once(served: Any) -> None:
    seen = news.state(served.jobs)
    served.jobs.pauses.change()
    assert Browser(seen, pauses=True).told() == [news.NEWS]


def test_a_measurement_of_another_process_is_a_change(served: Any) -> None:
    browser = Browser(news.state(served.jobs), pauses=False)
    waits(lambda: bool(served.jobs.pauses._waiting))
    served.jobs.elsewhere = "Another Breakeven process (pid 7) has been measuring since 12:03 UTC: x."
    assert browser.told() == [news.NEWS]


def test_charts_are_told_in_a_pause_and_of_nothing_else(served: Any) -> None:
    pauses: Pauses = served.jobs.pauses
    browser = Browser("", pauses=True)
    waits(lambda: pauses.watched == 1)
    pauses.change()
    assert pauses.watched == 1
    pauses.pause(threading.Event(), longest_s=0.0)
    assert browser.told() == [news.NEWS]


def test_a_closed_tab_is_forgotten_at_once(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "LOOK_S", 600.0)
    browser = Browser("", pauses=True)
    waits(lambda: served.jobs.pauses.watched == 1)
    browser.leave()
    assert browser.told() == []
    assert served.jobs.pauses.watched == 0


def test_an_answer_that_the_server_cancels_at_its_end_is_no_fault(served: Any) -> None:
    browser = Browser("", pauses=True)
    waits(lambda: served.jobs.pauses.watched == 1)
    browser.lose_the_server()
    assert browser.told() == []
    assert not browser._answer.cancelled()
    assert served.jobs.pauses.watched == 0
