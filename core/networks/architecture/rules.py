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
    pooling,
    recurrent,
    reshaping,
    steps,
)
from core.networks.architecture.rule import Rule

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dense.RULES,
        **convolution.RULES,
        **pooling.RULES,
        **normalisation.RULES,
        **recurrent.RULES,
        **steps.RULES,
        **attention.RULES,
        **merging.RULES,
        **reshaping.RULES,
        **activation.RULES,
    }
)
