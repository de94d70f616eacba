"""What the documents say of terms, labels, the self-check and rules, so that the Method page says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

METHOD, WORDS = "docs/method.md", "docs/terms.md"
CORE = Path(__file__).parents[1]
RULE = "| ---"  # what begins the line under a table's head
Pair = tuple[str, str]


class Term(NamedTuple):
    """A term of docs/terms.md; ``instead_of`` are the words that are not shown, ``unit`` is empty where it has none."""

    term: str
    meaning: str
    unit: str
    instead_of: tuple[str, ...]


def path(name: str) -> Path:
    """In a wheel a document lies inside ``core/``, as the pages do, else beside it (see ``pyproject.toml``)."""
    packed = CORE / "dashboard" / name
    return packed if packed.is_file() else CORE.parent / name


def section(text: str, title: str) -> str:
    """What stands under the heading ``## title``."""
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the Markdown tables in a text, without heads."""
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and RULE not in (line[:5], below[:5]):
            yield [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def numbered(text: str) -> Iterator[Pair]:
    """Title and paragraph of each heading ``### 1. Title``."""
    for part in re.split(r"^### \d+\. ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title, " ".join(body.split())


def terms(text: str) -> Iterator[Term]:
    """Every row of every table of docs/terms.md."""
    for term, meaning, unit, replaced in rows(text):
        yield Term(term, meaning, unit, tuple(filter(None, (word.strip() for word in replaced.split(",")))))


_TEXT = path(METHOD).read_text(encoding="utf-8")
LABELS = {label: meaning for label, meaning in rows(section(_TEXT, "Labels"))}
TERMS = tuple(terms(path(WORDS).read_text(encoding="utf-8")))
SELF_CHECK = section(_TEXT, "Self-check").strip()
RULES = tuple(numbered(section(_TEXT, "Rules")))
