"""Order of visits to the batches of a start: each once when it is prepared, then up and down over all.

A visit disturbed by other programs does not count, so its batch is revisited first. Its own block times never decide
that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache

from core.studies.runner import StudyTools
from core.studies.sweep.ledger import Ledger


class Rotation:
    """Order of visits in a start. ``visit`` takes a batch, the index of the pass, and whether it is the first visit in
    this start; it returns whether the visit was disturbed.
    """

    def __init__(self, tools: StudyTools, ledger: Ledger, visit: Callable[[int, int, bool], bool]) -> None:
        self._tools, self._clock, self._ledger, self._visit = tools, tools.clock, ledger, visit
        self.begin()

    def begin(self) -> None:
        """Reset the counts, since fresh workers have visited nothing."""
        self._visits: Counter[int] = Counter()
        self._disturbed: Counter[int] = Counter()
        self._down = False

    @property
    def visited(self) -> Collection[int]:
        """The batches visited in this start."""
        return self._visits.keys()

    def one_pass(self, batches: Iterable[int], end_s: float) -> None:
        """Visit the batches in the given order; none is begun after ``end_s``."""
        pass_index = self._ledger.next_pass
        for batch in batches:
            if self._clock.now_s() >= end_s:
                return
            disturbed = self._visit(batch, pass_index, batch not in self._visits)
            self._visits[batch] += 1
            self._disturbed[batch] += disturbed
            self._tools.pause()  # lets pages draw

    def go_on(self, batches: Callable[[], Collection[int]], end_s: float) -> None:
        """Make passes up and down over the batches with the fewest visits, until ``end_s``."""
        while (now_s := self._clock.now_s()) < end_s and (open_batches := batches()):
            counts = {batch: self._counted(batch) for batch in open_batches}
            fewest = min(counts.values())
            self._down = not self._down
            self.one_pass(sorted((b for b in counts if counts[b] == fewest), reverse=self._down), end_s)
            if self._clock.now_s() <= now_s:
                return  # nothing could run

    def repeat(self, batches: Collection[int], end_s: float) -> None:
        """Revisit the batches of which every visit was disturbed."""
        self.one_pass((b for b in sorted(batches) if self._visits[b] <= self._disturbed[b]), end_s)

    def _counted(self, batch: int) -> int:
        """Return the number of undisturbed visits, but at least half of all, so that other batches have their turn."""
        visits = self._visits[batch]
        return max(visits - self._disturbed[batch], visits // 2)


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
