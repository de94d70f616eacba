"""The order of blocks within rounds is balanced."""

from collections import Counter
from itertools import pairwise

import pytest

from core.base.evidence import MAX_TARGETS
from core.studies.sweep.rotation import order_of_round


def test_two_targets_alternate_and_one_stands_alone() -> None:
    assert [order_of_round(turn, (0, 1)) for turn in range(4)] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert [order_of_round(turn, (3,)) for turn in range(3)] == [(3,)] * 3


@pytest.mark.parametrize("count", range(1, MAX_TARGETS + 1))
def test_each_follows_each_other_and_stands_in_each_place_equally_often(count: int) -> None:
    stretch = count if count % 2 == 0 or count == 1 else 2 * count
    for start in (0, stretch):
        rounds = [order_of_round(start + turn, range(count)) for turn in range(stretch)]
        assert all(sorted(order) == list(range(count)) for order in rounds)
        follows = Counter(pair for order in rounds for pair in pairwise(order))
        places = Counter(spot for order in rounds for spot in enumerate(order))
        assert set(follows.values()) <= {stretch // count}
        assert len(follows) == count * (count - 1)
        assert (len(places), set(places.values())) == (count**2, {stretch // count})


def test_where_targets_are_missing_the_others_rotate_as_if_they_were_alone() -> None:
    assert [order_of_round(turn, (1, 4)) for turn in range(2)] == [(1, 4), (4, 1)]
    three = [order_of_round(turn, (0, 2, 5)) for turn in range(6)]
    assert set(Counter(pair for order in three for pair in pairwise(order)).values()) == {2}
