"""The shipped constants against the published measurements, if these are beside the checkout."""

from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.evidence.operations import available, dense_layers, token_products
from benchmarks.evidence.table import Evidence, joined, of_points
from benchmarks.hardware_cv import NEVER_FITTED, load
from benchmarks.hardware_fit import Fitted, MachineHost, hosts_of, predict_rows, prepare
from core.hardware.catalogue import GpuSpec, catalogue
from core.hardware.constants import constants
from core.hardware.host import kinds

pytestmark = pytest.mark.statistical

needs_data = pytest.mark.skipif(not available(), reason="needs the published measurements in ../shared/data/published")
A_CARD = 500
"""Maximum number of points per source and card."""


def shipped() -> Fitted:
    """Return host kinds and constants as shipped; factors for old measurements alone are as fitted to them."""
    hosts = {
        f"kind:{kind}": MachineHost(
            *(us / 1e3 for us in (own.step_us, own.per_op_us, own.xla_call_us, own.fit_us, own.eager_op_us))
        )
        for kind, own in kinds().items()
    }
    return Fitted(constants(), 20.0, 1.25, hosts)


def log_errors(mine: Evidence, cards: Mapping[str, GpuSpec], hosts: Mapping[str, MachineHost]) -> np.ndarray:
    return np.log(mine.measured_ms / predict_rows(prepare(mine), cards, hosts, shipped()).step_ms)


def median_error(logs: np.ndarray) -> float:
    return float(np.median(np.abs(np.expm1(-logs))))


@needs_data
def test_dense_layers_and_products_of_every_card_lie_near_the_shipped_constants() -> None:
    chance = np.random.default_rng(1)
    whole = joined([of_points(points) for points in (*dense_layers(), *token_products())])
    hosts = hosts_of(whole)
    for source in np.unique(whole.source):
        for gpu in set(whole.gpu[whole.source == source]) - NEVER_FITTED:
            at = np.flatnonzero((whole.source == source) & (whole.gpu == gpu) & ~whole.tiny)
            keep = np.zeros(len(whole), dtype=bool)
            keep[chance.permutation(at)[:A_CARD]] = True
            error = median_error(log_errors(whole.where(keep), catalogue(), hosts))
            assert error < 0.25, (source, gpu, error)


@needs_data
def test_whole_networks_lie_near_the_shipped_constants() -> None:
    data = load()
    for kind in ("cnn", "transformer"):
        mine = data.evidence.where(data.usable & (data.evidence.family == kind))
        assert len(mine) > 25
        assert median_error(log_errors(mine, data.cards, data.hosts)) < 0.3, kind
