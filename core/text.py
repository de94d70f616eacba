"""Text from outside (names, warnings, file names, exceptions), so that neither a terminal nor a reader is fooled by it.

Control characters (C0, C1, DEL), separators of lines and paragraphs, marks that turn the direction of writing, and lone
surrogates are not shown: what is white space becomes a space, all else a question mark. A text keeps its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

UNSEEN = "?"
APART = "&#8288;"  # WORD JOINER, which is not seen
MAX_SHOWN, MAX_SENTENCE = 120, 1000
_ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_MARKUP = re.compile(r"[\\`*_\[\]$<>~#|]")
_LISTED = re.compile(r"^(\s*\d*)([-+.)])(?=\s|$)")
_LIVE = re.compile(r":(?=//|material\\_|streamlit:)|www(?=\.)|@(?=[-\w\\])", re.IGNORECASE)


def clean(text: str) -> str:
    """The text in one line of printable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else UNSEEN for c in text)


def in_lines(lines: Iterable[str]) -> str:
    """Lines of a text; a break within one of them, such as in a name, makes no line of its own."""
    return "\n".join(map(clean, lines))


def shown(name: str) -> str:
    """A path's, a file's or an array's name as a sentence can hold it: not too long, too."""
    text = clean(name)
    return text if len(text) <= MAX_SHOWN else f"…{text[1 - MAX_SHOWN :]}"


def cut(text: str) -> str:
    """Beginning and end of a sentence that quotes something very long."""
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE // 2]} … {text[-MAX_SENTENCE // 2 :]}"


def in_markdown(text: str) -> str:
    """As Markdown shows it as it is: one line, no markup, link, image, icon, or person who is told of it.

    Addresses and names are found in what an escape stands for, too, so they are taken apart by :data:`APART`.
    """
    text = _LISTED.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", clean(text).replace("&", "&amp;")))
    return _LIVE.sub(lambda found: found[0] + APART, text)


def json_text(data: Any) -> str:
    """One JSON object, as commands print and write it and pages offer it. Raises ValueError for NaN."""
    return escaped_json(json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1))


def escaped_json(text: str) -> str:
    """The same JSON, in which characters that a terminal would act on are escaped; line breaks between values stay."""
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def sentence_case(text: str) -> str:
    """The text with a capital letter first, as a sentence or a label starts; the rest is left as it is."""
    return text[:1].upper() + text[1:]
