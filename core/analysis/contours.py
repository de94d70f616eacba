"""Contour lines of a matrix at zero, by marching squares (Lorensen and Cline 1987, in two dimensions)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from core.analysis.statistics import Array

Point = tuple[float, float]
_Edge = tuple[str, int, int]  # along x ("x") or y ("y"), from the corner in that row and column


def zero_lines(x: Array, y: Array, z: Array) -> list[list[Point]]:
    """Polylines where ``z`` (y × x), linear along the mesh's edges, is zero. NaN has no line.

    A closed line ends where it begins. At a saddle the mean of the four corners decides how lines pass.
    """
    joined: dict[_Edge, list[_Edge]] = defaultdict(list)
    for row in range(len(y) - 1):
        for column in range(len(x) - 1):
            for a, b in _segments(z, row, column):
                joined[a].append(b)
                joined[b].append(a)
    lines = []
    # open lines first: their ends are edges that only one segment touches
    for edge in sorted(joined, key=lambda e: (len(joined[e]), e)):
        while joined[edge]:
            lines.append([_place(x, y, z, at) for at in _walk(joined, edge)])
    return lines


def _segments(z: Array, row: int, column: int) -> list[tuple[_Edge, _Edge]]:
    corners = z[row : row + 2, column : column + 2]
    if np.isnan(corners).any():
        return []
    low: _Edge = ("x", row, column)
    high: _Edge = ("x", row + 1, column)
    left: _Edge = ("y", row, column)
    right: _Edge = ("y", row, column + 1)
    above = corners > 0
    cut = [
        edge
        for edge, crossed in (
            (low, above[0, 0] != above[0, 1]),
            (right, above[0, 1] != above[1, 1]),
            (high, above[1, 0] != above[1, 1]),
            (left, above[0, 0] != above[1, 0]),
        )
        if crossed
    ]
    if len(cut) == 4:
        joins_first_corner = (corners.mean() > 0) != above[0, 0]
        return [(left, low), (right, high)] if joins_first_corner else [(low, right), (high, left)]
    return [(cut[0], cut[1])] if cut else []


def _walk(joined: dict[_Edge, list[_Edge]], first: _Edge) -> list[_Edge]:
    """The line from an edge on, taken out of ``joined``."""
    line = [first]
    while joined[line[-1]]:
        here = line[-1]
        there = joined[here].pop()
        joined[there].remove(here)
        line.append(there)
    return line


def _place(x: Array, y: Array, z: Array, edge: _Edge) -> Point:
    along, row, column = edge
    other = (row, column + 1) if along == "x" else (row + 1, column)
    a, b = z[row, column], z[other]
    share = float(a / (a - b))
    return (
        float(x[column] + share * (x[other[1]] - x[column])),
        float(y[row] + share * (y[other[0]] - y[row])),
    )
