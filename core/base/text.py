"""Sanitising of outside text (names, warnings, file names, exceptions), so that it fools neither terminal nor reader.

Control characters (C0, C1, DEL), line and paragraph separators, marks that change the writing direction, and lone
surrogates are not shown: white space becomes a space, anything else a question mark. The length stays the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

UNSEEN = "?"
APART = "&#8288;"  # WORD JOINER, which is invisible
MAX_SHOWN, MAX_SENTENCE = 120, 1000
_ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_MARKUP = re.compile(r"[\\`*_\[\]$<>~#|]")
_LISTED = re.compile(r"^(\s*\d*)([-+.)])(?=\s|$)")
_LIVE = re.compile(r":(?=//|material\\_|streamlit:)|www(?=\.)|@(?=[-\w\\])", re.IGNORECASE)


def clean(text: str) -> str:
    """Return the text in one line of printable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else UNSEEN for c in text)


def in_lines(lines: Iterable[str]) -> str:
    """Join lines to a text; a line break within one of them, such as in a name, starts no new line."""
    return "\n".join(map(clean, lines))


def shown(name: str) -> str:
    """Return the name of a path, a file or an array, cleaned and shortened to fit a sentence."""
    text = clean(name)
    return text if len(text) <= MAX_SHOWN else f"…{text[1 - MAX_SHOWN :]}"


def cut(text: str) -> str:
    """Return the beginning and the end of a very long sentence, or the sentence itself."""
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE // 2]} … {text[-MAX_SENTENCE // 2 :]}"


def in_markdown(text: str) -> str:
    """Escape text so that Markdown shows it literally: one line, no markup, link, image, icon or mention.

    Addresses and mentions are recognised even behind an escape, so :data:`APART` is inserted into them.
    """
    text = _LISTED.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", clean(text).replace("&", "&amp;")))
    return _LIVE.sub(lambda match: match[0] + APART, text)


def json_text(data: Any) -> str:
    """Return one JSON object, as commands print and write it and pages offer it. Raises ValueError for NaN."""
    return escaped_json(json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1))


def escaped_json(text: str) -> str:
    """Escape characters in JSON that a terminal would act on; line breaks between values stay."""
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def sentence_case(text: str) -> str:
    """Return the text with its first letter capitalised and the rest unchanged, for a sentence or a label."""
    return text[:1].upper() + text[1:]
