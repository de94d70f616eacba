"""Terms, labels, self-check and rules from the documents, so that the Method page agrees with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st

METHOD, WORDS = "docs/method.md", "docs/terms.md"
CORE = Path(__file__).parents[1]
RULE = "| ---"  # start of the line under a table's head
Pair = tuple[str, str]


class Term(NamedTuple):
    """A term of docs/terms.md; ``instead_of`` are words to avoid, ``unit`` is empty if it has none."""

    term: str
    meaning: str
    unit: str
    instead_of: tuple[str, ...]


def path(name: str) -> Path:
    """Return a document's path: in a wheel inside ``core/``, like pages, else beside it (see ``pyproject.toml``)."""
    packed = CORE / "dashboard" / name
    return packed if packed.is_file() else CORE.parent / name


def section(text: str, title: str) -> str:
    """Return the text under the heading ``## title``."""
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the Markdown tables in a text, without heads."""
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and RULE not in (line[:5], below[:5]):
            yield [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def numbered(text: str) -> Iterator[Pair]:
    """Yield title and paragraph of each heading ``### 1. Title``."""
    for part in re.split(r"^### \d+\. ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title, " ".join(body.split())


def terms(text: str) -> Iterator[Term]:
    """Yield every row of every table of docs/terms.md."""
    for term, meaning, unit, replaced in rows(text):
        yield Term(term, meaning, unit, tuple(filter(None, (word.strip() for word in replaced.split(",")))))


_TEXT = path(METHOD).read_text(encoding="utf-8")
LABELS = {label: meaning for label, meaning in rows(section(_TEXT, "Labels"))}
TERMS = tuple(terms(path(WORDS).read_text(encoding="utf-8")))
SELF_CHECK = section(_TEXT, "Self-check").strip()
RULES = tuple(numbered(section(_TEXT, "Rules")))


def labels() -> None:
    """Show the meaning of the labels beside every number."""
    with st.container(border=True):
        for label, meaning in LABELS.items():
            st.markdown(f"**{label}** {meaning}")


def words() -> None:
    """Show every term of pages, reports and commands, with its meaning."""
    rows = [(f"**{each.term}**", each.meaning, each.unit) for each in TERMS]
    table = pd.DataFrame(rows, columns=["Word", "Meaning", "Unit"])
    st.table(table, border="horizontal", hide_index=True)


def rules() -> None:
    """Show a box for each rule of measurement."""
    with st.grid(2, min_column_width=420, gap="small"):
        for number, (title, sentence) in enumerate(RULES, start=1):
            with st.container(border=True, height="stretch"):
                st.markdown(f"**{number}. {title}**  \n{sentence}")
