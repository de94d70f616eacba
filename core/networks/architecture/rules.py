"""Allow-list of every built-in Keras layer that can be counted and built, by Keras's class name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from core.networks.architecture.kinds import (
    activation,
    attention,
    convolution,
    dense,
    merging,
    normalisation,
    recurrent,
    reshaping,
)
from core.networks.architecture.kinds.recurrent import inner_layer, inner_work
from core.networks.architecture.options import Options
from core.networks.architecture.rule import Rule, Shape, Work, repeated

ONE_INPUT: dict[str, Rule] = {
    **dense.RULES,
    **convolution.RULES,
    **normalisation.RULES,
    **reshaping.RULES,
    **activation.RULES,
}
"""Layers of one input that are not recurrent."""
INNER = {name: rule for name, rule in ONE_INPUT.items() if rule.public and not rule.takes_tokens}
"""Layers that TimeDistributed can apply to each step of a sequence."""


def _each_step(options: Options, shapes: tuple[Shape, ...]) -> Work:
    steps, *rest = shapes[0]
    if not rest:
        raise ValueError(f"takes steps and one axis more at least; its input has the shape {shapes[0]}")
    return repeated(inner_work(INNER, options, tuple(rest)), steps)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **ONE_INPUT,
        **recurrent.RULES,
        "TimeDistributed": Rule(
            {"layer": inner_layer(INNER, "a layer that takes one input and is not recurrent")}, _each_step
        ),
        **attention.RULES,
        **merging.RULES,
    }
)
