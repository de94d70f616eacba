"""What ``docs/method.md`` says of labels, words, the self-check and rules, so that the Method page says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NAME = "docs/method.md"
CORE = Path(__file__).parents[1]
Pair = tuple[str, str]


def path() -> Path:
    """In a wheel it lies inside ``core/``, as the pages do, else beside it (see ``pyproject.toml``)."""
    packed = CORE / "dashboard" / NAME
    return packed if packed.is_file() else CORE.parent / NAME


def section(text: str, title: str) -> str:
    """What stands under the heading ``## title``."""
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def table(text: str) -> Iterator[Pair]:
    """The rows of a Markdown table of two columns, without its head."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    yield from ((first, second) for first, second in rows[2:])


def numbered(text: str) -> Iterator[Pair]:
    """Title and paragraph of each heading ``### 1. Title``."""
    for part in re.split(r"^### \d+\. ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title, " ".join(body.split())


_TEXT = path().read_text(encoding="utf-8")
LABELS = dict(table(section(_TEXT, "Labels")))
TERMS = tuple(table(section(_TEXT, "Words")))
SELF_CHECK = section(_TEXT, "Self-check").strip()
RULES = tuple(numbered(section(_TEXT, "Rules")))
