"""What a modelled step depends on beside its workload, its target and the host: whose kernels, which data, under what.

Keras 3 writes normalisations, losses and optimizers as many small operations. A vendor's fused build (NVIDIA's
containers, PyTorch with cuDNN, Keras 2 with its fused layers) runs each as one kernel, so that a published figure says
little about the other unless it is known which of them it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.spec import Target

Build = Literal["unnamed", "keras", "fused"]
"""``unnamed``: nobody said; both are plausible (core.hardware.plausible). ``keras``: Keras 3 on TensorFlow, as it is
installed. ``fused``: normalisation, loss and optimizer in one kernel each."""
BUILD_WORDS: dict[Build, str] = {"unnamed": "build not named", "keras": "Keras 3", "fused": "a vendor's fused build"}
NAMED_BUILDS: dict[Build, float] = {"keras": 0.5, "fused": 0.5}
"""How likely each is where nobody said: judgement."""


@dataclass(frozen=True)
class Conditions:
    """``fed``: each batch crosses the link. ``under_fit``: with what the loop of ``fit`` itself costs a step."""

    fed: bool = False
    build: Build = "keras"
    under_fit: bool = False

    def as_built(self, target: Target) -> Target:
        """A fused build has nobody who chooses how to execute, and runs its graph."""
        if self.build == "fused" and target.execution == "keras":
            return target.model_copy(update={"execution": "graph"})
        return target


USUAL = Conditions()
