"""Targets of a run in an address, by their number from 1. Pure."""

from __future__ import annotations

from collections.abc import Sequence

OLD = ("first", "second")
"""Names of the targets in addresses from the time of two targets; they stay valid."""


def target_address(target: int) -> str:
    return str(target + 1)


def addressed_target(text: str | None, targets: Sequence[int]) -> int | None:
    """Return the one of these targets that the text of an address names, or None."""
    named = {target_address(target): target for target in targets}
    named |= {old: target for target, old in enumerate(OLD) if target in targets}
    return named.get(text or "")
