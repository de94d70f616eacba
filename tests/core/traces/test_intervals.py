"""Interval arithmetic against a brute-force grid of whole numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.traces.partition import EMPTY, Spans, covered, holds, intersect, merged, subtract, sweep

SIZE = 40
ends = st.integers(0, SIZE)
spans = st.lists(st.tuples(ends, ends), max_size=12).map(
    lambda pairs: np.array([sorted(pair) for pair in pairs], dtype=np.int64).reshape(-1, 2)
)
windows = st.lists(st.tuples(ends, ends), min_size=1, max_size=4).map(
    lambda pairs: np.array([sorted(pair) for pair in pairs], dtype=np.int64)
)


def grid(items: Spans) -> np.ndarray:
    """Return True for each of the units [0, SIZE) that lies in any span."""
    found = np.zeros(SIZE, dtype=bool)
    for begin, end in items.tolist():
        found[begin:end] = True
    return found


def is_merged(items: Spans) -> bool:
    return bool((items[:, 1] > items[:, 0]).all() and (items[1:, 0] > items[:-1, 1]).all())


@given(spans, spans)
def test_union_difference_and_intersection_are_those_of_the_grid(first: Spans, second: Spans) -> None:
    left, both = subtract(merged(first), merged(second)), intersect(merged(first), merged(second))
    assert is_merged(left)
    assert is_merged(both)
    assert (grid(left) == (grid(first) & ~grid(second))).all()
    assert (grid(both) == (grid(first) & grid(second))).all()
    union = merged(first, second)
    assert is_merged(union)
    assert (grid(union) == (grid(first) | grid(second))).all()


@given(spans, windows)
def test_holds_and_covered_count_the_units_of_the_grid(items: Spans, within: Spans) -> None:
    expected = [grid(items)[begin:end].sum() for begin, end in within.tolist()]
    assert covered(merged(items), within).tolist() == expected
    assert (holds(merged(items), np.arange(SIZE)) == grid(items)).all()


@given(st.lists(spans, max_size=5), windows)
def test_the_sweep_gives_each_unit_to_the_first_layer_there(layers: list[Spans], within: Spans) -> None:
    owner = np.full(SIZE, len(layers))
    for index in reversed(range(len(layers))):
        owner[grid(layers[index])] = index
    expected = [[(owner[begin:end] == row).sum() for begin, end in within.tolist()] for row in range(len(layers) + 1)]
    found = sweep(layers, within)
    assert found.tolist() == expected
    assert (found >= 0).all()
    assert (found.sum(axis=0) == within[:, 1] - within[:, 0]).all()


@given(st.lists(spans, min_size=1, max_size=4), windows, spans, st.randoms())
def test_a_lower_layer_never_changes_a_higher_one(
    layers: list[Spans], within: Spans, extra: Spans, random: object
) -> None:
    shuffled = [layer[np.random.default_rng(random.randint(0, 99)).permutation(len(layer))] for layer in layers]  # type: ignore[attr-defined]
    more = [*shuffled[:-1], np.concatenate([shuffled[-1], extra])]
    assert sweep(more, within)[: len(layers) - 1].tolist() == sweep(layers, within)[: len(layers) - 1].tolist()
    assert (sweep(more, within)[len(layers) - 1] >= sweep(layers, within)[len(layers) - 1]).all()


@given(spans, st.randoms(use_true_random=False))
def test_order_and_repetition_of_events_do_not_matter(items: Spans, random: object) -> None:
    order = list(range(len(items)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert merged(items[order], items).tolist() == merged(items).tolist()


def test_sums_are_exact_where_floats_are_not_and_nothing_is_merged_to_nothing() -> None:
    begin = 2**61
    ones = np.array([[begin + 2 * i, begin + 2 * i + 1] for i in range(1000)], dtype=np.int64)
    window = np.array([[begin, begin + 2000]], dtype=np.int64)
    assert sweep([ones, EMPTY], window)[:, 0].tolist() == [1000, 0, 1000]
    assert merged().shape == (0, 2)
    assert merged(np.array([[3, 3], [5, 4]])).shape == (0, 2)
    assert covered(EMPTY, np.array([[0, 9]])).tolist() == [0]
