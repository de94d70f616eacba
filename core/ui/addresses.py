"""How an address names a target of a run: by its number, from 1. Pure."""

from __future__ import annotations

from collections.abc import Sequence

OLD = ("first", "second")
"""How addresses named the targets while there were two; they stay good."""


def target_address(target: int) -> str:
    return str(target + 1)


def addressed_target(text: str | None, targets: Sequence[int]) -> int | None:
    """The one of these targets that the text of an address names, or None."""
    named = {target_address(target): target for target in targets}
    named |= {old: target for target, old in enumerate(OLD) if target in targets}
    return named.get(text or "")
