"""The difference of int8 outputs from float32: a share of their range, and the samples that keep their class."""

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.worker.accuracy import LEAST_SAMPLES, MOST_SAMPLES, output_difference, samples_compared

CLASSES, ONE = network_from_name("20-16-4"), network_from_name("20-16-1")


def test_differences_are_shares_of_the_range() -> None:
    exact = np.array([[0.0, 1.0, 2.0, 8.0], [4.0, 3.0, 0.0, 0.0]], np.float32)
    found = exact + np.array([[0.0, 0.0, 0.0, -0.8], [0.0, 2.4, 0.0, 0.0]], np.float32)
    differs = output_difference(exact, found, CLASSES, "all")
    assert (differs.samples, differs.quantised) == (2, "all")
    assert differs.largest == pytest.approx(0.3)
    assert differs.mean == pytest.approx(3.2 / 8 / 8)
    assert differs.agreeing == 0.5, "the second sample's class is another one"


def test_one_class_agrees_on_its_side() -> None:
    exact, found = np.array([[0.6], [0.4], [0.8], [0.9]]), np.array([[0.4], [0.3], [0.7], [0.9]])
    assert not ONE.from_logits, "its outputs are probabilities"
    assert output_difference(exact, found, ONE, "").agreeing == 0.75


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_outputs_that_are_all_alike_have_no_range_to_divide_by(value: float) -> None:
    exact = np.full((3, 4), value)
    assert output_difference(exact, exact, CLASSES, "").largest == 0.0
    assert output_difference(exact, exact + 1, CLASSES, "").largest == pytest.approx(1 / (value or 1))


def test_large_networks_are_compared_on_fewer_samples() -> None:
    assert samples_compared(CLASSES) == MOST_SAMPLES
    assert samples_compared(network_from_name("ResNet50")) == LEAST_SAMPLES
