"""Comparison of int8 outputs with float32 outputs, for any framework. The same samples go through both."""

from __future__ import annotations

import numpy as np

from core.base.evidence import MAX_WHY, OutputDifference
from core.networks.families import Network

MOST_SAMPLES, LEAST_SAMPLES = 128, 8
MOST_FLOPS = 1e9  # for all samples together, LEAST_SAMPLES at least: 1 s with the slowest int8 kernels


def samples_compared(network: Network) -> int:
    """Return how many samples to compare outputs for; int8 calibration, where needed, uses as many other samples."""
    affordable = int(MOST_FLOPS / max(1, network.flops_per_sample(training=False)))
    return min(MOST_SAMPLES, max(LEAST_SAMPLES, affordable))


def output_difference(
    exact: np.ndarray, quantised_outputs: np.ndarray, network: Network, quantised: str
) -> OutputDifference:
    """Compare outputs (samples, …, classes) in float32 and int8; ``quantised`` says what is in int8.

    With one class, two outputs agree if they lie on the same side of the decision threshold.
    """
    exact, quantised_outputs = exact.astype(np.float64), quantised_outputs.astype(np.float64)
    apart = np.abs(quantised_outputs - exact)
    scale = float(np.ptp(exact)) or float(np.abs(exact).max()) or 1.0
    if network.classes == 1:
        decides = 0.0 if network.from_logits else 0.5
        same = (exact > decides) == (quantised_outputs > decides)
    else:
        same = exact.argmax(axis=-1) == quantised_outputs.argmax(axis=-1)
    return OutputDifference(
        samples=len(exact),
        largest=float(apart.max()) / scale,
        mean=float(apart.mean()) / scale,
        agreeing=float(same.mean()),
        quantised=quantised[:MAX_WHY],
    )
