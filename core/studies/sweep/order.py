"""Order of the blocks in a round, rotated so that no target profits from the one before it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def order_of_round(turn: int, targets: Sequence[int]) -> tuple[int, ...]:
    """Return the order of the targets' blocks in a batch's round number ``turn``, from 0.

    Over every stretch of as many rounds as there are targets (twice as many if that number is odd), each target comes
    in each position equally often and right after each other one equally often.
    """
    rows = _rows(len(targets))
    return tuple(targets[place] for place in rows[turn % len(rows)])


@cache
def _rows(count: int) -> tuple[tuple[int, ...], ...]:
    """Return a Latin square balanced for carry-over effects (Williams 1949): 0, 1, n − 1, 2, n − 2, … and its shifts.
    An odd n needs their mirror images, too.
    """
    first = [(place + 1) // 2 if place % 2 else -place // 2 for place in range(count)]
    square = [tuple((value + shift) % count for value in first) for shift in range(count)]
    if count % 2 == 0 or count == 1:
        return tuple(square)
    return tuple(row for pair in zip(square, (row[::-1] for row in square), strict=True) for row in pair)
