"""Hostile text in every field of every record, in addresses, errors and titles: no page takes any of it for markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from google.protobuf.message import Message
from markdown_it import MarkdownIt
from streamlit.testing.v1 import AppTest

from core.hardware.catalogue import FILE_NAME, CardPrice, OwnCard, add_own
from core.store import StoreError
from core.studies.progress import Progress
from core.studies.registry import kinds
from core.ui import frame, menu
from core.ui.css import IN_GROUP, STYLE
from core.ui.history import page as history
from core.ui.study_page import HTML as TICKER
from simulated.pages import ended, keep, open_page, running, sweeping
from tests.support import study_pages
from tests.support.hostile import ACTING, HOSTILE, MARKUP
from tests.support.hostile_records import hostile_records, hostile_run, mark, texts_of

pytestmark = pytest.mark.pages

TEXT_ONLY = {"options", "default", "id", "form_id", "page", "query_string", "alt", "columns", "config", "url", "value",
             "file_name", "element_id", "page_script_hash", "language", "user_key"}  # fmt: skip
"""Fields of elements that no browser takes for Markdown."""
TAGS = {"<b>", "</b>", "<br>", "<i>", "</i>", "<extra>", "</extra>"}
"""Tags that our charts write themselves."""
OURS = {STYLE.strip(), (STYLE + IN_GROUP).strip(), TICKER.strip()}
"""HTML of our own, with nothing from outside in it."""
LINKS = {"link_open", "image", "html_inline", "html_block"}


def strings(message: Message) -> Iterator[tuple[str, str]]:
    """Yield every text of an element, with the name of its field."""
    for field, value in message.ListFields():
        for part in value if field.is_repeated else [value]:
            if isinstance(part, Message):
                yield from strings(part)
            elif isinstance(part, str):
                yield field.name, part


def check_markdown(text: str) -> None:
    """Check that the text holds no payload, and that Markdown finds neither link nor image nor HTML in it."""
    assert not [markup for markup in MARKUP if markup in text], text
    for block in MarkdownIt().parse(text):
        for token in (block, *(block.children or ())):
            assert token.type not in LINKS, text


def check_chart(spec: str) -> None:
    figure = json.loads(spec)
    words = figure["layout"].pop("meta", {})  # text around the chart, as Markdown; Plotly shows none of it
    assert not any(set(text) & set(ACTING) for text in texts_of(words))
    for text in texts_of(figure):
        assert not set(text) & set(ACTING), text
        assert set(re.findall(r"<[^>]*>", text)) <= TAGS, text
        assert "<b>x</b>" not in text, text


def check(at: AppTest) -> str:
    """Return everything that a page shows, after checking that none of it is live."""
    seen: list[str] = []
    waiting: list[Any] = [at._tree]
    while waiting:
        node = waiting.pop()
        waiting += getattr(node, "children", {}).values()
        proto = getattr(node, "proto", None)
        if isinstance(getattr(node, "value", None), pd.DataFrame):
            cells = [cell for column in node.value for cell in node.value[column] if isinstance(cell, str)]
            assert not [cell for cell in cells if set(cell) & set(ACTING)]
            if node.type in ("table", "arrow_table"):
                for cell in cells:
                    check_markdown(cell)
            seen += cells
        for field, text in strings(proto) if isinstance(proto, Message) else ():
            if field == "spec" and text.startswith("{"):
                check_chart(text)
            elif text.strip() in OURS:
                continue
            elif field not in TEXT_ONLY and type(proto).__name__ != "Code":
                assert not set(text) & (set(ACTING) - {"\n"}), (field, text)
                check_markdown(text)
            else:
                assert not set(text) & (set(ACTING) - {"\n"}) or field in ("id", "element_id"), (field, text)
            seen.append(text)
    return "\n".join(seen)


@pytest.fixture(autouse=True)
def all_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw folded parts of pages, too."""
    monkeypatch.setattr(frame, "folded", lambda parts: [draw() for draw in parts.values()])


@pytest.fixture
def stored(engine: Any) -> Any:
    """Store every hostile record."""
    keep(engine.store, hostile_run())
    for kind, record in hostile_records()[0].items():
        if kind != "sweep":
            study_pages.keep(engine, kind, record, f"20260105-{kind}")
    return engine


def hostile_card(**more: Any) -> OwnCard:
    """Return a user's card with hostile text in every field."""
    price = CardPrice(per_hour=1.0, currency="EUR", dated="2026-11-01", source=HOSTILE[:400])
    facts = {"fp32_tflops": 20.0, "memory_gb": 16.0, "bandwidth_gb_s": 500.0, "link_gb_s": 16.0}
    return OwnCard.model_validate({"name": "Ours", "title": HOSTILE[:400], "link": HOSTILE[:80], **facts} | more
                                  | {"price": price})  # fmt: skip


@pytest.mark.usefixtures("this_machine", "stored")
def test_the_pages_show_it_as_text_and_most_of_it_somewhere() -> None:
    """Check that pages show the text, since otherwise nothing would have been tested."""
    filled = hostile_records()[1].filled
    said = {page: check(open_page(page, run=hostile_run().id)) for page in menu.pages()}
    dull = [page for page, text in said.items() if not any(mark(field) in text for field in filled)]
    assert dull == []
    assert sum(mark(field) in "".join(said.values()) for field in filled) >= 25


@pytest.mark.usefixtures("this_machine", "stored")
@pytest.mark.parametrize("row", range(len(kinds())))
def test_a_row_of_the_history_shows_it_as_text(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_selected_rows", lambda _: [row])
    assert "evil" in check(open_page("history"))


def test_two_runs_are_compared_as_text(engine: Any) -> None:
    ids = []
    for number in (1, 2):
        changes = {"id": f"20260105-run{number}", "name": f"{number} {HOSTILE[:150]}"}
        ids.append(keep(engine.store, hostile_run().model_copy(update=changes)))
    engine.store.tag(ids, add=[HOSTILE[:40]])
    assert mark("Run.target_names") in check(open_page("history", compare=",".join(ids)))
    engine.store.delete(*ids)
    check(open_page("history"))


@pytest.mark.parametrize(
    ("page", "name"),
    [(page, "run") for page in ("crossover", "batch", "hardware", "overhead", "diagnosis")]
    + [
        ("frontier", "study"),
        ("scaling", "study"),
        ("pipeline", "study"),
        ("diagnosis", "study"),
        ("batch", "noise"),
        ("batch", "memory"),
    ]
    + [("hardware", name) for name in ("host", "gpus", "batch", "precision", "against")]
    + [("start", "gpu"), ("crossover", "gpu"), ("overhead", "target"), ("overhead", "batch")],
)
@pytest.mark.usefixtures("this_machine", "stored")
def test_a_page_shows_its_address_as_text(page: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "folded", lambda _: None)
    check(open_page(page, **({"run": hostile_run().id} | {name: f"{MARKUP[0]} {HOSTILE}"})))


@pytest.mark.parametrize(
    "page", ["start", "sweep", "frontier", "scaling", "pipeline", "diagnosis", "batch", "hardware", "overhead"]
)
@pytest.mark.parametrize("state", ["elsewhere", "refused", "running", "failed", "unavailable"])
@pytest.mark.usefixtures("this_machine", "stored")
def test_a_page_shows_what_happens_as_text(page: str, state: str, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at = Progress("measuring", HOSTILE, 5, 14, 30.0, 90.0)
    if state not in ("elsewhere", "refused"):  # these stand beside folded buttons
        monkeypatch.setattr(frame, "folded", lambda _: None)
    if state == "elsewhere":
        engine.jobs.elsewhere = HOSTILE
    for kind in ("frontier", "scaling", "pipeline", "diagnosis", "noise", "memory", "host", "trace", "pitfalls"):
        if state == "running":
            engine.jobs.show(running(kind, HOSTILE, at))
        elif state == "failed":
            engine.jobs.show(ended(kind, HOSTILE, error=HOSTILE))
    if state == "running":
        engine.jobs.show(sweeping(hostile_run()) if page in ("start", "sweep") else running(page, HOSTILE, at))
    if state == "unavailable":
        monkeypatch.setattr(engine.store, "summaries", failing)
    shown = open_page(page, run=hostile_run().id)
    if state == "refused":
        engine.jobs.refusal = HOSTILE
        for button in [button for button in shown.button if str(button.key).startswith("measure_")]:
            if not button.disabled:
                shown = button.click().run()
    assert "evil" in check(shown)


def failing(*_: object, **__: object) -> None:
    raise StoreError(HOSTILE)


@pytest.mark.usefixtures("this_machine", "stored")
def test_a_card_of_ones_own_is_shown_as_text(data_dir: Path) -> None:
    add_own(data_dir / FILE_NAME, (hostile_card(),))
    assert "evil" in check(open_page("hardware", run=hostile_run().id, gpus="Ours"))
