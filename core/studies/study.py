"""What the records of all kinds of study share: strict JSON, and what each says of itself."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

from pydantic import ValidationError

from core.evidence import Environment, Label, Status, Warning
from core.schema import Frozen, UserError, explain

SCHEMA_VERSION: Literal[1] = 1
ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Record(Frozen):
    """What was measured, raw: every statistic is derived from it, each time. ``noun`` names it in sentences."""

    noun: ClassVar[str] = "study"

    schema_version: Literal[1] = SCHEMA_VERSION

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Raises UserError where the text is no such record of this version."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise UserError(
                f"This is no Breakeven {cls.noun} of schema version {SCHEMA_VERSION}: {explain(error)}"
            ) from None


class Study(Record):
    """The envelope of a record. ``created_at`` is UTC in ISO 8601; ``environment`` is None where it is not known."""

    label: Label = "measured"
    status: Status = "finished"
    created_at: str = ""
    elapsed_s: float = 0.0
    environment: Environment | None = None
    warnings: tuple[Warning, ...] = ()


def run_id_of(record: Any) -> str | None:
    """The run that a study belongs to, if any."""
    return getattr(record, "run_id", None)


def new_id() -> str:
    """Date and six random characters, as in 20261121-7f3k2a."""
    return f"{datetime.now(UTC):%Y%m%d}-{''.join(secrets.choice(ID_CHARACTERS) for _ in range(6))}"
