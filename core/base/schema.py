"""Base class of frozen models, errors in one sentence, and field types of a price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, from_json

MAX_KEYS = 1_000
"""Limit per JSON object; the largest one written here, package versions, has about ten."""
MAX_INTEGER = 2**63 - 1
"""Largest integer that fits a database column."""
MAX_PER_HOUR = 1e6


def _a_day(value: str) -> str:
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("a price is dated by a day, such as 2026-11-01") from None


PerHour = Annotated[float, Field(gt=0, le=MAX_PER_HOUR)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
PriceDay = Annotated[str, AfterValidator(_a_day)]
"""A day in ISO 8601, the granularity of prices."""

MAX_WHERE = 160


class UserError(ValueError):
    """A request that cannot be met. The message is one sentence for the person who can change that.

    It is a ValueError, so that validators may raise it, too.
    """


def _fail_fast(schema: Any) -> None:
    if isinstance(schema, list):
        for item in schema:
            _fail_fast(item)
    elif isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "set", "frozenset"):
            schema["fail_fast"] = True
        for key, item in schema.items():
            if key != "metadata":
                _fail_fast(item)


class Frozen(BaseModel):
    """Base of all records and plans: immutable, no unknown fields, no NaN or infinity.

    An alias is the name of a field in JSON; Python code uses the field's own. Validation of a list stops at its first
    wrong item, since each error costs memory and only the first one is reported.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True, validate_by_name=True
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _fail_fast(schema)
        return schema

    @classmethod
    def read_json(cls, text: str | bytes) -> Self:
        """Return the object described by untrusted text. Raises UserError, or pydantic's ValidationError."""
        return cls.model_validate(parse_json(text))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON into plain data; reading text directly with pydantic takes up to 300 times its size in memory.

    Raises UserError if it is not valid JSON, an object has more than :data:`MAX_KEYS` keys, or a whole number is beyond
    :data:`MAX_INTEGER`.
    """
    try:
        data = from_json(text, cache_strings="keys")
    except ValueError as error:
        raise UserError(f"The file is not valid JSON: {error}.") from None
    waiting = [[data]]
    while waiting:
        inside = waiting.pop()
        for value in inside.values() if isinstance(inside, dict) else inside:
            kind = type(value)
            if kind is int:
                if abs(value) > MAX_INTEGER:
                    raise UserError(f"A whole number in the file is too large; at most {MAX_INTEGER:,} is accepted.")
            elif kind is list:
                waiting.append(value)
            elif kind is dict:
                if len(value) > MAX_KEYS:
                    raise UserError(
                        f"An object in the file has {len(value):,} keys; at most {MAX_KEYS:,} are accepted."
                    )
                waiting.append(value)
    return data


def printable(text: str) -> str:
    """Return the text. Raises ValueError if it contains unprintable characters."""
    if not text.isprintable():
        raise ValueError("must hold printable characters only")
    return text


@contextmanager
def as_user_error(where: str = "") -> Iterator[None]:
    """Re-raise any ValueError from the block, pydantic's included, as a UserError that begins with ``where``."""
    try:
        yield
    except ValidationError as error:
        raise UserError(f"{where}{explain(error)}") from None
    except ValueError as error:
        raise UserError(f"{where}{error}") from None


_WORDS = {
    "Input should be less than or equal to": "must be at most",
    "Input should be greater than or equal to": "must be at least",
    "Input should be greater than": "must be more than",
    "Input should be less than": "must be less than",
    "Input should be": "must be",
}
"""Beginnings of pydantic's messages, and the same for a person who filled a field."""


def _in_words(message: str) -> str:
    begin = next((begin for begin in _WORDS if message.startswith(begin)), "")
    return f"{_WORDS[begin]}{message.removeprefix(begin)}" if begin else message


def explain(error: ValidationError) -> str:
    """Return one sentence for the first error that pydantic reports, with its location."""
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"] if part not in ("function-after", "function-before"))
    where = "".join(c for c in path if c.isprintable())[:MAX_WHERE]  # a key in a file may contain anything
    what = _in_words(first["msg"].removeprefix("Value error, ").rstrip("."))
    value = first.get("input")
    shown = f" (got {str(value)[:80]!r})" if isinstance(value, (str, int, float, bool)) else ""
    return f"{where}: {what}{shown}." if where else f"{what}{shown}."
