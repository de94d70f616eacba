"""The Method page contains docs/terms.md and docs/method.md: all of it, and nothing else."""

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.ui import method_text
from simulated.pages import PATIENCE_S

ROOT = Path(__file__).parents[3]


def page() -> None:
    from core.ui import method_text

    method_text.labels()
    method_text.words()
    method_text.rules()


def written() -> list[str]:
    """Return the documents' text, a line per table row and rule, as a reader of Markdown sees it."""
    text = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    terms = (ROOT / "docs" / "terms.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text, re.MULTILINE)
    words = re.findall(r"^\| (.+?) \| (.+?) \|(.*?)\|", terms, re.MULTILINE)
    rows += [(term, f"{meaning} {unit}") for term, meaning, unit in words]
    pairs = [pair for pair in rows if pair[1] not in ("meaning", "---", "meaning  unit ", "---  --- ")]
    rules = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    pairs += [(title, body) for title, _, body in (rule.partition("\n") for rule in rules)]
    return sorted(" ".join(f"{first} {second}".split()) for first, second in pairs)


def test_the_page_shows_what_the_docs_say() -> None:
    at = AppTest.from_function(page, default_timeout=PATIENCE_S).run()
    assert not at.exception
    table = at.table[0].value
    shown = [" ".join(row) for row in table.itertuples(index=False)]
    shown += [element.value for kind in ("caption", "markdown") for element in getattr(at, kind)]
    assert sorted(" ".join(text.replace("**", "").split()) for text in shown) == written()
    assert len(shown) > 40


def test_rules_are_numbered_in_order() -> None:
    numbers = re.findall(r"^### (\d+)\. ", method_text.path("docs/method.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(method_text.RULES) + 1)]


def test_a_wheel_has_its_own_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method_text, "CORE", tmp_path)
    packed = tmp_path / "dashboard" / "docs" / "method.md"
    packed.parent.mkdir(parents=True)
    packed.write_text("packed", encoding="utf-8")
    assert method_text.path("docs/method.md") == packed
