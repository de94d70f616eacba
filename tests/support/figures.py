"""Text and traces of a figure."""

from typing import Any

import plotly.graph_objects as go


def words(figure: go.Figure) -> str:
    """Return all text inside the picture, joined over line ends."""
    return " ".join(annotation.text for annotation in figure.layout.annotations)


def trace(figure: go.Figure, name: str) -> Any:
    return next(one for one in figure.data if one.name == name)


def traces_by_mode(figure: go.Figure, mode: str = "lines+markers") -> list[Any]:
    return [one for one in figure.data if one.mode == mode]


def upright(figure: go.Figure) -> list[Any]:
    """Return vertical lines that mark a batch, such as a crossover."""
    return [shape for shape in figure.layout.shapes if shape.type == "line" and shape.x0 == shape.x1]
