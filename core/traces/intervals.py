"""Exact arithmetic with time intervals in integer picoseconds (or any other unit), half open: [begin, end).

``Spans`` is an int64 array of shape (n, 2). *Merged* spans are sorted, disjoint, non-adjacent and non-empty; functions
that need them say so. Sums are exact while times stay below 2⁶².
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Spans = NDArray[np.int64]
EMPTY: Spans = np.empty((0, 2), dtype=np.int64)


def merged(*several: Spans) -> Spans:
    """Return the union of all spans, merged; empty and reversed ones are ignored."""
    spans = np.concatenate([EMPTY, *several])
    spans = spans[spans[:, 1] > spans[:, 0]]
    if not len(spans):
        return EMPTY
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.concatenate([[True], spans[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([spans[first, 0], reach[last]], axis=1)


def subtract(spans: Spans, taken: Spans) -> Spans:
    """Return the parts of merged spans outside other merged spans; merged."""
    if not len(spans) or not len(taken):
        return spans
    low, high = min(spans[0, 0], taken[0, 0]), max(spans[-1, 1], taken[-1, 1])
    gaps = np.stack([np.concatenate([[low], taken[:, 1]]), np.concatenate([taken[:, 0], [high]])], axis=1)
    return intersect(spans, gaps[gaps[:, 1] > gaps[:, 0]])


def intersect(first: Spans, second: Spans) -> Spans:
    """Return the intersection of two merged spans; merged."""
    if not len(first) or not len(second):
        return EMPTY
    edges = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    pieces = np.stack([edges[:-1], edges[1:]], axis=1)
    return merged(pieces[holds(first, pieces[:, 0]) & holds(second, pieces[:, 0])])


def holds(spans: Spans, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the moments that lie in merged spans, shape of ``at``."""
    if not len(spans):
        return np.zeros(len(at), dtype=np.bool_)
    index = np.searchsorted(spans[:, 0], at, side="right") - 1
    return np.asarray((index >= 0) & (at < spans[index, 1]))


def covered(spans: Spans, windows: Spans) -> NDArray[np.int64]:
    """Return the length of each window covered by merged spans, shape (windows,)."""
    if not len(spans):
        return np.zeros(len(windows), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])

    def until(at: NDArray[np.int64]) -> NDArray[np.int64]:
        index = np.searchsorted(spans[:, 0], at, side="right")
        return np.asarray(before[index] - np.where(index > 0, np.maximum(spans[index - 1, 1] - at, 0), 0))

    return until(windows[:, 1]) - until(windows[:, 0])


def sweep(layers: Sequence[Spans], windows: Spans) -> NDArray[np.int64]:
    """Return each layer's share of each window, shape (layers + 1, windows); the last row is covered by no layer.

    Each instant goes to the first layer active at it, so a column sums to its window exactly. The layers need not be
    merged. A layer gets what it adds to the union of those before it: the boundary sweep of xprof (``event_span.cc``)
    without walking from boundary to boundary.
    """
    rows, union = [np.zeros(len(windows), dtype=np.int64)], EMPTY
    for layer in layers:
        union = merged(union, layer)
        rows.append(covered(union, windows))
    rows.append(windows[:, 1] - windows[:, 0])
    whole = np.stack(rows)
    return whole[1:] - whole[:-1]
