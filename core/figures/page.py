"""An HTML page that opens offline and sends nothing: its head, style, tables and lists. Pure functions.

All outside text is escaped, and a content security policy forbids the page any connection and any script, so that it is
safe to pass on.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files

from core.base.text import clean

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: Iterable[str]) -> str:
    """Return the whole page. ``body`` is HTML, the title is plain text."""
    style = (files(__package__) / "page.css").read_text(encoding="utf-8")
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Breakeven</title><style>\n{style}</style></head><body>"
    )
    return f"{head}{''.join(body)}</body></html>\n"


def escape(text: str) -> str:
    """Return outside text escaped for HTML, in one line."""
    return html.escape(clean(text))


def paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def folded(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str] = ()) -> str:
    """Return a table of texts that scrolls if it is wide. The first column and ``words`` are left-aligned."""
    numbers = [bool(i) and name not in words for i, name in enumerate(columns)]

    def line(kind: str, texts: Sequence[str]) -> str:
        marks = (' class="number"' if right else "" for right in numbers)
        return "".join(f"<{kind}{mark}>{escape(text)}</{kind}>" for mark, text in zip(marks, texts, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{line("th", columns)}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def pairs(facts: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f"<table><tbody>{lines}</tbody></table>"
