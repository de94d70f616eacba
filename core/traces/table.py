"""Compact form of a timeline for storage and transfer: a table of distinct texts, and spans that refer to them.

The names of a large network's kernels have hundreds of characters each and recur in every layer; written out, the
timeline of one traced step of BERT takes 1.3 MB, and 0.2 MB in this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("lane", "name", "part", "start_ms", "length_ms")
_TEXTS = ("lane", "name")


def packed(spans: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return ``texts``, and ``spans`` as rows of :data:`COLUMNS`, with lane and name as indices into the texts."""
    places: dict[str, int] = {}
    rows = [
        [places.setdefault(span[key], len(places)) if key in _TEXTS else span[key] for key in COLUMNS] for span in spans
    ]
    return {"texts": list(places), "spans": rows}


def unpacked(given: Any, most: int) -> Any:
    """Return the spans of a packed timeline; other input (an old file's, or Python objects) is returned unchanged.

    Raises ValueError for more than ``most`` spans, or for one without its texts.
    """
    if not isinstance(given, Mapping):
        return given
    if set(given) != {"texts", "spans"} or not all(isinstance(part, list) for part in given.values()):
        raise ValueError("a timeline must hold a list of texts and a list of spans")
    texts, rows = given["texts"], given["spans"]
    if len(rows) > most:
        raise ValueError(f"a timeline holds at most {most:,} spans")
    return [_span(row, texts) for row in rows]


def _span(row: Any, texts: list[Any]) -> dict[str, Any]:
    if not isinstance(row, list) or len(row) != len(COLUMNS):
        raise ValueError(f"a span of a timeline must have {len(COLUMNS)} values")
    span = dict(zip(COLUMNS, row, strict=True))
    for key in _TEXTS:
        place = span[key]
        if not isinstance(place, int) or not 0 <= place < len(texts):
            raise ValueError(f"a span of a timeline must name one of its {len(texts):,} texts")
        span[key] = texts[place]
    return span
