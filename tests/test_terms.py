"""One idea, one word: the words that docs/terms.md replaces are shown nowhere.

Shown are the documents without their code, and of the program every literal of several words or with a capital letter,
and the help of commands. A single word in small letters is a code, a field or a flag: data.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.ui.method_text import TERMS

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "core").rglob("*.py"), *(ROOT / "pages").glob("*.py")])
DOCUMENTS = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REPLACED = [word for term in TERMS for word in term.instead_of]
WORDS = re.compile(rf"\b(?:{'|'.join(map(re.escape, REPLACED))})\b|[0-9}}]%", re.IGNORECASE)
CELL = re.compile(r"\bcells?\b", re.IGNORECASE)
FOR_DEVELOPERS = {"README.md", "adding_a_study.md", "design.md", "frameworks.md", "terms.md", "validation.md"}
"""Documents that may use “cell” for a target at a batch size, as the code does."""

CODES = {"gpu ahead throughout", "cpu ahead throughout", "not resolved"}
PERMITTED = {
    "core/networks/architecture/text.py": {"lead"},  # of a layer: does not lead to the output
    "core/networks/families/recurrent.py": {"cell"},  # of an LSTM
    "core/hardware/figures.py": {"slope"},  # of the roof
    "core/rounds/show/imports.py": {"cell"},  # the field of a file that is repeated
}


def literals(source: str) -> Iterator[str]:
    """Yield every literal that may be shown; braces stand for the values of an f-string.

    Docstrings are for developers, except those of commands, which are their help.
    """
    nodes = list(ast.walk(ast.parse(source)))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(each) for each in node.decorator_list):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node)}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def is_shown(text: str) -> bool:
    return text not in CODES and (" " in text.strip() or text[:1].isupper())


def prose(path: Path) -> str:
    """Return a document without code and addresses; the list of terms also without its last column."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text)
    return re.sub(r"\|[^|\n]*\|$", "", text, flags=re.MULTILINE) if path.name == "terms.md" else text


def wrong(path: Path, text: str, *patterns: re.Pattern[str]) -> list[str]:
    """Return the replaced words in a text of this file."""
    name = path.relative_to(ROOT).as_posix()
    allowed = PERMITTED.get(name, set())
    words = {found[0].lower() for pattern in patterns for found in pattern.finditer(text)}
    return [f"{name}: “{word}” in “{text}”" for word in sorted(words - allowed)]


def test_the_program_shows_no_replaced_word() -> None:
    found = []
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        if wrong(path, source, WORDS, CELL):  # fast path: most files contain none anywhere
            found += [each for text in literals(source) if is_shown(text) for each in wrong(path, text, WORDS, CELL)]
    assert found == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_documents_use_no_replaced_word(path: Path) -> None:
    patterns = (WORDS,) if path.name in FOR_DEVELOPERS or path.parent.name == "tables" else (WORDS, CELL)
    assert wrong(path, prose(path), *patterns) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("say('GPU 0 wins')", True),
        ("say(f'{name} is ahead of {other}')", True),
        ("columns = ['Ahead']", True),
        ("say(f'{share:.0f}% of a step')", True),
        ("@click.command()\ndef show():\n    'Say who leads.'", True),
        ("'A docstring that says ahead.'\nkind = 'ahead'\nahead = data['ahead']", False),
        ("say(f'{name} is faster from batch {ahead}')", False),
    ],
)
def test_what_is_shown_is_told_from_codes(source: str, found: bool) -> None:
    assert any(WORDS.search(text) for text in literals(source) if is_shown(text)) is found
