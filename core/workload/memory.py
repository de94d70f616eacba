"""Prediction of the memory a workload needs, part by part, before anything runs.

Weights, gradients and optimizer state follow from the parameters: 4 + 4 + s bytes each in training, s = 0 for SGD, 4
with momentum, 8 for Adam (Kingma and Ba 2015 keep two moments); mixed precision adds a 2-byte copy of the weights
(Micikevicius et al. 2018). Training keeps the layers' outputs until the backward pass, along with the gradients of a
few of them; inference holds a few layers' outputs at a time. :class:`Copies` states how many copies of each part
TensorFlow really holds at its peak: its defaults are measured, and :mod:`core.studies.memory.forecast` fits them to a
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from core.base.frameworks import Compiled
from core.networks.families import Network
from core.workload.execution import expected
from core.workload.spec import Mode, Target, Workload

CONTEXT_BYTES = 655_000_000  # a process with TensorFlow started, nothing built (measured: benchmarks/memory.py)
_STATE_BYTES = {"sgd": 0, "momentum": 4, "adam": 8}
_LABEL_BYTES = 8  # int64
_INITIALISER_COPIES = 2.3  # random numbers and their scaled copy while a layer is built (measured: likewise)
_INSIDE_AT_ONCE = 1 / 3


@dataclass(frozen=True)
class Copies:
    """Number of copies of each part alive at the peak.

    ``model_bytes`` and ``layer_bytes`` are fixed costs of a model and of each of its layers: traced graphs, compiled
    code. ``update`` counts copies of the largest layer's weights held by an optimizer update, ``kept`` copies of all
    layers' outputs in training, ``passing`` temporary copies of the largest layer's outputs beside them, ``feeding``
    copies of the batch while it is made (a step has one).
    """

    model_bytes: float
    layer_bytes: float
    update: float
    kept: float
    passing: float
    feeding: float


# Measured on a CPU with TensorFlow: benchmarks/memory.py; modes not listed use those of a graph.
USUAL: dict[Compiled, Copies] = {
    "graph": Copies(19e6, 1.4e6, update=1.5, kept=1.0, passing=2.4, feeding=3.0),
    "eager": Copies(26e6, 1.4e6, update=1.5, kept=1.0, passing=2.4, feeding=3.0),
    "xla": Copies(110e6, 2.0e6, update=0.3, kept=2.1, passing=1.0, feeding=3.0),
}


ON_GPU: dict[Mode, Copies] = {
    "train": Copies(1e6, 5e4, update=0.3, kept=0.95, passing=0.75, feeding=1.0),
    "infer": Copies(1e6, 5e4, update=0.0, kept=0.0, passing=1.5, feeding=1.0),
}
"""On a GPU with XLA, fitted to its compiler's plans (benchmarks/memory_compiled.py); other modes are assumed to need as
much as on a CPU, unmeasured.
"""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part; ``total_bytes`` excludes the framework's own process (:data:`CONTEXT_BYTES`)."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    workspace_bytes: int
    data_bytes: int

    @property
    def named(self) -> dict[str, int]:
        """Bytes of each part, by its displayed name."""
        return {
            "weights": self.weights_bytes,
            "gradients": self.gradients_bytes,
            "optimizer": self.optimizer_bytes,
            "activations": self.activations_bytes,
            "workspace": self.workspace_bytes,
            "batch data": self.data_bytes,
        }

    @property
    def total_bytes(self) -> int:
        return sum(self.named.values())


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network.

    Counts: all parameters, those of the ``largest`` layer, and the ``layers``. Values per sample: all layers' outputs
    and internal values (``kept``), the maximum over layers (``passing``), and the sample itself.
    """

    parameters: int
    largest: int
    layers: int
    kept: int
    passing: float
    sample: int


@lru_cache(maxsize=512)
def sizes(network: Network) -> Sizes:
    """Return the sizes that memory depends on.

    A layer without weights that outputs as many values as the one before it (an activation, a sum, a flattening) works
    in that layer's memory. A layer's internal values are not all alive at once: about a third, by measurement.
    """
    layers = network.layers
    first, rest = layers[0], layers[1:]
    own = [first.activations] + [
        0 if layer.parameters == 0 and layer.activations == before.activations else layer.activations
        for before, layer in zip(layers, rest, strict=False)
    ]
    return Sizes(
        parameters=sum(layer.parameters for layer in layers),
        largest=max(layer.parameters for layer in layers),
        layers=len(layers),
        kept=sum(own) + sum(layer.internal for layer in layers),
        passing=max(layer.activations + _INSIDE_AT_ONCE * layer.internal for layer in layers),
        sample=network.sample_values,
    )


def usual_copies(workload: Workload, target: Target) -> Copies:
    """Return the copies for the target's expected execution mode; a graph's if that mode was not measured."""
    execution = expected(workload.network, target).execution
    return ON_GPU[workload.mode] if target.is_gpu and execution == "xla" else USUAL.get(execution, USUAL["graph"])


def estimate_bytes(workload: Workload, target: Target, batch: int, copies: Copies | None = None) -> MemoryEstimate:
    """Predict the peak memory of one cell beyond the framework's own, with the usual copies unless others are given.

    The peak falls in a step, or before it if making the batch or the largest layer takes more than a step does; that
    excess is added to workspace and data. For several GPUs it is the peak of each, which holds the whole network and
    its share of the batch; logical devices of a CPU hold all of that in one process.
    """
    networks, batch = (target.replicas, batch) if target.on_cpu else (1, -(-batch // target.replicas))
    used = copies or usual_copies(workload, target)
    counts, training = sizes(workload.network), workload.training
    mixed = target.is_mixed
    parameters = networks * counts.parameters
    weights = (6 if mixed else 4) * parameters
    gradients = 4 * parameters if training else 0
    state = _STATE_BYTES[workload.optimizer] * parameters if training else 0
    kept = (2 if mixed else 4) * used.kept * counts.kept if training else 0.0
    activations = batch * (kept + 4 * used.passing * counts.passing)  # casts are temporary: 4 bytes each
    workspace = used.model_bytes + used.layer_bytes * counts.layers + 4 * used.update * counts.largest * training
    data = batch * (4 * counts.sample + _LABEL_BYTES * training)
    beside_weights = gradients + state + activations + workspace
    building = 4 * _INITIALISER_COPIES * counts.largest
    step = data + weights + max(beside_weights, building)
    return MemoryEstimate(
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=state,
        activations_bytes=round(activations),
        workspace_bytes=round(workspace + max(0.0, building - beside_weights)),
        data_bytes=round(data + max(0.0, used.feeding * data - step)),
    )
