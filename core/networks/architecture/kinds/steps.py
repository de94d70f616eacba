"""Layers applied to each step of a sequence separately."""

from __future__ import annotations

from core.networks.architecture.kinds import activation, convolution, dense, normalisation, pooling, reshaping
from core.networks.architecture.kinds.recurrent import inner_layer, inner_work
from core.networks.architecture.options import Options
from core.networks.architecture.rule import Rule, Shape, Work, repeated

INNER = {
    name: rule
    for name, rule in {
        **dense.RULES,
        **convolution.RULES,
        **pooling.RULES,
        **normalisation.RULES,
        **reshaping.RULES,
        **activation.RULES,
    }.items()
    if rule.public and not rule.takes_tokens
}


def _each_step(options: Options, shapes: tuple[Shape, ...]) -> Work:
    steps, *rest = shapes[0]
    if not rest:
        raise ValueError(f"takes steps and one axis more at least; its input has the shape {shapes[0]}")
    return repeated(inner_work(INNER, options, tuple(rest)), steps)


RULES = {
    "TimeDistributed": Rule(
        {"layer": inner_layer(INNER, "a layer that takes one input and is not recurrent")}, _each_step
    )
}
