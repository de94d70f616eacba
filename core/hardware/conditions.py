"""Conditions of a modelled step besides workload, target and host: whose kernels run, data placement, and loop.

Keras 3 writes normalisations, losses and optimizers as many small operations. A vendor's fused build (NVIDIA's
containers, PyTorch with cuDNN, Keras 2 with its fused layers) runs each as one kernel, so a published figure says
little about the other kind of build unless it is known which one it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.spec import Target

Build = Literal["unnamed", "keras", "fused"]
"""``unnamed``: not stated, so both are plausible (core.hardware.plausible). ``keras``: Keras 3 on TensorFlow, as it is
installed. ``fused``: normalisation, loss and optimizer in one kernel each.
"""
BUILD_WORDS: dict[Build, str] = {"unnamed": "build not named", "keras": "Keras 3", "fused": "a vendor's fused build"}
NAMED_BUILDS: dict[Build, float] = {"keras": 0.5, "fused": 0.5}
"""Probability of each build if none was named: a judgement."""


@dataclass(frozen=True)
class Conditions:
    """Data path, build and loop of a step.

    ``fed``: each batch crosses the link. ``under_fit``: the step includes what the loop of ``fit`` itself costs.
    """

    fed: bool = False
    build: Build = "keras"
    under_fit: bool = False

    def as_built(self, target: Target) -> Target:
        """Return the target as this build runs it: a fused build leaves no choice to Keras and runs its graph."""
        if self.build == "fused" and target.execution == "keras":
            return target.model_copy(update={"execution": "graph"})
        return target


USUAL = Conditions()
