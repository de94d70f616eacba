"""How far outputs in int8 lie from those in float32, whatever the framework. The same samples go through both."""

from __future__ import annotations

import numpy as np

from core.evidence import MAX_WHY, OutputDifference
from core.families import Network

MOST_SAMPLES, LEAST_SAMPLES = 128, 8
MOST_FLOPS = 1e9  # of all samples together, where that leaves the least: a second by the slowest kernels for int8


def samples_compared(network: Network) -> int:
    """How many samples outputs are compared for, and as many others int8 is calibrated with where it needs that."""
    affordable = int(MOST_FLOPS / max(1, network.flops_per_sample(training=False)))
    return min(MOST_SAMPLES, max(LEAST_SAMPLES, affordable))


def output_difference(exact: np.ndarray, found: np.ndarray, network: Network, quantised: str) -> OutputDifference:
    """Between outputs (samples, …, classes) in float32 and int8; ``quantised`` says what is in int8.

    For one class, two outputs agree where they lie on the same side of what decides.
    """
    exact, found = exact.astype(np.float64), found.astype(np.float64)
    apart = np.abs(found - exact)
    scale = float(np.ptp(exact)) or float(np.abs(exact).max()) or 1.0
    if network.classes == 1:
        decides = 0.0 if network.from_logits else 0.5
        same = (exact > decides) == (found > decides)
    else:
        same = exact.argmax(axis=-1) == found.argmax(axis=-1)
    return OutputDifference(
        samples=len(exact),
        largest=float(apart.max()) / scale,
        mean=float(apart.mean()) / scale,
        agreeing=float(same.mean()),
        quantised=quantised[:MAX_WHY],
    )
