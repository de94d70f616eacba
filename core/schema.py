"""Frozen models, what is refused with one sentence, and the fields of a price."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

MAX_PER_HOUR = 1e6


def _a_day(value: str) -> str:
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("a price is dated by a day, such as 2026-11-01") from None


PerHour = Annotated[float, Field(gt=0, le=MAX_PER_HOUR)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
PriceDay = Annotated[str, AfterValidator(_a_day)]
"""A day in ISO 8601, as prices change."""

MAX_WHERE = 160


class UserError(ValueError):
    """What was asked cannot be done. The message is one sentence for the person who can change that.

    A ValueError, so that validators may raise it, too.
    """


class Frozen(BaseModel):
    """An alias is the name of a field in JSON; Python code uses the field's own."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True, validate_by_name=True
    )


def printable(text: str) -> str:
    """The text. Raises ValueError where it holds characters that cannot be shown."""
    if not text.isprintable():
        raise ValueError("must hold printable characters only")
    return text


@contextmanager
def as_user_error(where: str = "") -> Iterator[None]:
    """What pydantic or a check refuses inside, as a UserError that begins with ``where``."""
    try:
        yield
    except ValidationError as error:
        raise UserError(f"{where}{explain(error)}") from None
    except ValueError as error:
        raise UserError(f"{where}{error}") from None


def explain(error: ValidationError) -> str:
    """One sentence for the first thing that pydantic found wrong, with the place it stands in."""
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"] if part not in ("function-after", "function-before"))
    where = "".join(c for c in path if c.isprintable())[:MAX_WHERE]  # a key of a file may be anything
    what = first["msg"].removeprefix("Value error, ").rstrip(".")
    given = first.get("input")
    shown = f" (got {str(given)[:80]!r})" if isinstance(given, (str, int, float, bool)) else ""
    return f"{where}: {what}{shown}." if where else f"{what}{shown}."
