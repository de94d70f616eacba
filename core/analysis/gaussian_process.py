"""Gaussian process over a few dimensions, for measurements grouped by starts of the workers.

y = m(x) + g(x) + start + drift + unit: a linear mean with a normal prior on its coefficients, a Matérn-5/2 process with
one length scale per dimension, an offset shared by all measurements of one start, a drift shared by neighbours in time
(an Ornstein-Uhlenbeck process), and a unit's own error. All are normal, so mean and variance anywhere follow in closed
form (Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", equations 2.23, 2.24; 2.39 for the mean
with a prior; 5.8 for the marginal likelihood that chooses the parameters).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.analysis.statistics import CONFIDENCE, Array

INTERCEPT_SD, SLOPE_SD = 4.0, 1.0  # of the linear mean: log2 speed-up, and the same per octave
DRIFT_S = 6.0  # correlation time of the drift; only its order of magnitude matters
SWEEPS = 12  # at most; each tries every parameter up and down
FIRST_STEP, LAST_STEP = 0.8, 0.1  # of the logarithm of a parameter
JITTER = 1e-8
DRAWS = 4000  # for the quantile of a simultaneous band


@dataclass(frozen=True)
class Prior:
    """Log-normal prior: the logarithm is normal around that of ``median`` with standard deviation ``spread``."""

    median: float
    spread: float


@dataclass(frozen=True)
class Priors:
    """Priors of the parameters: ``signal`` of the process's standard deviation, ``length`` of its length scales, the
    others of the error terms.
    """

    signal: Prior
    length: Prior
    start: Prior
    drift: Prior
    unit: Prior


@dataclass(frozen=True)
class Parameters:
    """Standard deviations and length scales, in the units of y and x."""

    signal: float
    start: float
    drift: float
    unit: float
    lengths: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Observed:
    """Measurements. ``x`` is n × d, the others have n entries.

    ``variance`` is the known part of a unit's error variance, ``at_s`` the time of its measurement.
    """

    x: Array
    y: Array
    variance: Array
    start: NDArray[np.int64]
    at_s: Array


@dataclass(frozen=True, eq=False)
class Surface:
    """The process conditioned on observations, made by :func:`condition`."""

    observed: Observed
    parameters: Parameters
    weights: Array  # K⁻¹ y
    whiten: Array  # L⁻¹, K = L Lᵀ

    def at(self, x: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the noiseless m + g at the rows of ``x`` (m × d)."""
        cross = _prior_covariance(x, self.observed.x, self.parameters)
        explained = np.einsum("ij,ij->i", half := cross @ self.whiten.T, half)
        own = INTERCEPT_SD**2 + SLOPE_SD**2 * np.einsum("ij,ij->i", x, x) + self.parameters.signal**2
        return cross @ self.weights, np.sqrt(np.maximum(own - explained, JITTER))

    def simultaneous_band(self, x: Array) -> float:
        """Return how many standard deviations to each side hold the surface at all rows of ``x`` (m × d) at once, at
        95 %: the quantile of the largest |z| over draws of the posterior, with a fixed seed.
        """
        half = _prior_covariance(x, self.observed.x, self.parameters) @ self.whiten.T
        values, vectors = np.linalg.eigh(_prior_covariance(x, x, self.parameters) - half @ half.T)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))
        roots /= np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), JITTER)
        drawn = np.abs(roots @ np.random.default_rng(0).standard_normal((len(x), DRAWS)))
        return float(np.quantile(drawn.max(axis=0), CONFIDENCE))


def condition(observed: Observed, parameters: Parameters) -> Surface:
    """Return the surface for given parameters."""
    factor = np.linalg.cholesky(_covariance(observed, parameters))
    whiten = np.linalg.solve(factor, np.eye(len(observed.y)))
    return Surface(observed, parameters, whiten.T @ (whiten @ observed.y), whiten)


def fit_parameters(observed: Observed, priors: Priors, begin: Parameters | None = None) -> Parameters:
    """Maximise marginal likelihood times prior, by coordinate search in the logarithms of the parameters.

    Deterministic. ``begin`` (the parameters of an earlier fit) speeds it up.
    """
    dimensions = observed.x.shape[1]
    each = (priors.signal, priors.start, priors.drift, priors.unit, *(priors.length,) * dimensions)
    centre = np.log([prior.median for prior in each])
    spread = np.array([prior.spread for prior in each])
    squares = [(observed.x[:, None, i] - observed.x[None, :, i]) ** 2 for i in range(dimensions)]
    fixed = _linear(observed.x, observed.x) + np.diag(observed.variance + JITTER)
    together, near = _shared(observed)

    def score(logs: Array) -> float:
        p = _parameters(logs)
        r2 = sum((square / length**2 for square, length in zip(squares, p.lengths, strict=True)), np.zeros(()))
        k = fixed + p.signal**2 * _matern(r2) + p.start**2 * together + p.drift**2 * near
        k[np.diag_indices_from(k)] += p.unit**2
        return _log_likelihood(k, observed.y) - 0.5 * float(np.sum(((logs - centre) / spread) ** 2))

    first = centre if begin is None else np.log([begin.signal, begin.start, begin.drift, begin.unit, *begin.lengths])
    return _parameters(_climb(score, first, FIRST_STEP if begin is None else FIRST_STEP / 2))


def _climb(score: Callable[[Array], float], logs: Array, step: float) -> Array:
    best = score(logs)
    for _ in range(SWEEPS):
        moved = False
        for i in range(len(logs)):
            for change in (step, -step):
                tried = logs.copy()
                tried[i] += change
                if (likelihood := score(tried)) > best:
                    logs, best, moved = tried, likelihood, True
                    break
        if not moved:
            step /= 2
            if step < LAST_STEP:
                break
    return logs


def _parameters(logs: Array) -> Parameters:
    signal, start, drift, unit, *lengths = (math.exp(value) for value in logs)
    return Parameters(signal, start, drift, unit, tuple(lengths))


def _log_likelihood(covariance: Array, y: Array) -> float:
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, y)
    return -0.5 * float(white @ white) - float(np.sum(np.log(np.diag(factor))))


def _linear(a: Array, b: Array) -> Array:
    return INTERCEPT_SD**2 + SLOPE_SD**2 * (a @ b.T)


def _matern(r2: Array) -> Array:
    """Return the Matérn correlation, ν = 5/2 (Rasmussen and Williams, equation 4.17), of squared scaled distances."""
    r = np.sqrt(5.0 * r2)
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


def _prior_covariance(a: Array, b: Array, parameters: Parameters) -> Array:
    lengths = np.array(parameters.lengths)
    p, q = a / lengths, b / lengths
    r2 = np.maximum((p * p).sum(1)[:, None] + (q * q).sum(1)[None, :] - 2.0 * p @ q.T, 0.0)
    return _linear(a, b) + parameters.signal**2 * _matern(r2)


def _shared(observed: Observed) -> tuple[Array, Array]:
    """Return for each two units whether they share a start (1 or 0), and the correlation of their drift."""
    together = (observed.start[:, None] == observed.start[None, :]).astype(float)
    apart_s = np.abs(observed.at_s[:, None] - observed.at_s[None, :])
    return together, together * np.exp(-apart_s / DRIFT_S)


def _covariance(observed: Observed, parameters: Parameters) -> Array:
    together, near = _shared(observed)
    own = np.diag(observed.variance + parameters.unit**2 + JITTER)
    errors = parameters.start**2 * together + parameters.drift**2 * near + own
    return _prior_covariance(observed.x, observed.x, parameters) + errors
