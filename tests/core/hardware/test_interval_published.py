"""Shipped constants and intervals against the published measurements, where they lie beside the checkout."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.hardware_accuracy import NEVER_FITTED, relative
from benchmarks.hardware_fit import PARAMETERS, fitted_of, hosts_of, predict_points
from benchmarks.published import available, dense_layers, token_products
from core.hardware.catalogue import catalogue
from core.hardware.constants import constants
from core.hardware.interval import errors

needs_data = pytest.mark.skipif(not available(), reason="needs the published measurements in ../shared/data/published")


@needs_data
def test_dense_layers_and_products_lie_where_the_shipped_errors_say() -> None:
    sets = [*dense_layers(), *token_products()]
    starts = [start for start, _, _ in PARAMETERS.values()]
    shipped = replace(fitted_of(starts), constants=constants(), old_depth_ns=5.8)
    hosts = hosts_of(sets)
    classes = errors().classes
    inside = []
    for points in sets:
        for name in np.unique(points.gpu):
            assert name not in NEVER_FITTED
            mine = points.where((points.gpu == name) & ~points.tiny)
            predicted = predict_points(mine, catalogue(), hosts, shipped)
            logs = np.log(mine.measured_ms / predicted.step_ms)
            assert relative(logs)[0] < 0.25
            for region, at in (
                ("launch", predicted.work_ms < predicted.overhead_ms / 2),
                ("work", predicted.work_ms > 2 * predicted.overhead_ms),
            ):
                if at.sum() > 100:
                    low, high = classes[f"dense/{region}/{points.phase}"].bounds(0.9)
                    inside.append(np.mean((logs[at] >= low) & (logs[at] <= high)))
    assert np.mean(inside) > 0.85
