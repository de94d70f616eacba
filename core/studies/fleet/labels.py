"""Parser of machine labels: ``gpu=a100,zone=b``."""

from __future__ import annotations

from core.schema import UserError
from core.text import shown


def labels(text: str) -> dict[str, str]:
    """Parse labels such as ``gpu=a100,zone=b``. Raises UserError."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and value.strip() for name, _, value in pairs):
        raise UserError(f"“{shown(text)}” names no labels; accepted is label=value, several divided by commas.")
    return {name.strip(): value.strip() for name, _, value in pairs}
