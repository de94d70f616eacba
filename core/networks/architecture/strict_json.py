"""Strict parser of untrusted JSON to plain data, which refuses what the standard library's parser lets through."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from core.base.numbers import byte_size
from core.base.schema import UserError
from core.networks.architecture.options import shown

MAX_BYTES = 2_000_000
"""Limit of the JSON text; the largest network of keras.applications, NASNetLarge, takes half of it."""
MAX_NESTING = 60
"""Nesting limit; Keras writes about 12 levels for a model, and 3 more for each model inside it."""
MAX_DIGITS = 25

# an unterminated string is matched to the end of the text, so that the search stays linear
_TOKENS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)


def parse(data: bytes | str) -> Any:
    """Return the value that the text describes.

    Raises UserError if it is not JSON, larger than :data:`MAX_BYTES`, nested deeper than :data:`MAX_NESTING`, ambiguous
    (a repeated key) or contains NaN or Infinity.
    """
    if len(data) > MAX_BYTES:
        raise UserError(
            f"The description of the model is too large ({byte_size(len(data))}); accepted are up to "
            f"{byte_size(MAX_BYTES)} of JSON."
        )
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"The file is neither UTF-8 text nor a .keras or .h5 file (byte {error.start + 1:,})."
        ) from None
    _check_nesting(text)
    try:
        return json.loads(
            text, parse_constant=_constant, parse_int=_integer, parse_float=_number, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise UserError(f"The file is not valid JSON: line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise UserError("The file is nested too deeply.") from None


def _check_nesting(text: str) -> None:
    depth = 0
    for token in _TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_NESTING:
                raise UserError(f"The file is nested deeper than {MAX_NESTING} levels.")
        elif token[0] in "]}":
            depth -= 1


def _constant(word: str) -> Any:
    raise UserError(f"The file holds {shown(word)}, which is no number.")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise UserError(f"The file holds a number of {len(digits):,} digits; at most {MAX_DIGITS} are accepted.")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise UserError(f"The file holds the number {shown(digits)}, which is too large.")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise UserError(f"The file holds the key {shown(key)} twice in one object.")
        members[key] = value
    return members
