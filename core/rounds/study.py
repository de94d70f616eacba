"""Base of the records of all kinds of study: strict JSON and common fields."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

from core.base.evidence import Environment, Label, Status, Warning
from core.base.schema import Frozen, as_user_error

SCHEMA_VERSION: Literal[1] = 1
MAX_RECORD_BYTES = 20_000_000
"""Largest JSON of a record: it takes up to forty times that in memory."""
ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Record(Frozen):
    """Raw measurements: every statistic is derived from them, each time. ``noun`` names the record in sentences."""

    noun: ClassVar[str] = "study"

    schema_version: Literal[1] = SCHEMA_VERSION

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a record. Raises UserError if the text is no such record of this version."""
        with as_user_error(cls._refused()):
            return cls.read_json(text)

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Read a record from parsed JSON, as :meth:`from_json` does."""
        with as_user_error(cls._refused()):
            return cls.model_validate(data)

    @classmethod
    def _refused(cls) -> str:
        return f"This is no Breakeven {cls.noun} of schema version {SCHEMA_VERSION}: "


class Study(Record):
    """Envelope of a record. ``created_at`` is UTC in ISO 8601; ``environment`` is None if unknown."""

    label: Label = "measured"
    status: Status = "finished"
    created_at: str = ""
    elapsed_s: float = 0.0
    environment: Environment | None = None
    warnings: tuple[Warning, ...] = ()

    def as_recorded(self) -> Self:
        """Return the record marked as not measured here."""
        return self.model_copy(update={"label": "recorded"}) if self.label == "measured" else self


def new_id() -> str:
    """Return a new id of date and six random characters, as in 20261121-7f3k2a."""
    return f"{datetime.now(UTC):%Y%m%d}-{''.join(secrets.choice(ID_CHARACTERS) for _ in range(6))}"
