"""Labels of machines as people write them: ``kind=a100,zone=eu``."""

from __future__ import annotations

from core.schema import UserError
from core.studies.fleet.record import Labels
from core.text import shown


def parse_labels(text: str) -> Labels:
    """From ``label=value,label=value``. Raises UserError."""
    found: Labels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UserError(f"Labels {shown(text[:80])} are not understood; write label=value,label=value.")
        found[name] = value
    if not found:
        raise UserError("A machine is chosen by at least one label, such as kind=a100.")
    return found
