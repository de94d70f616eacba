"""Conditions that nobody named: which are plausible for a card, and the interval that spans them."""

import numpy as np
import pytest

from core.hardware.catalogue import catalogue
from core.hardware.crossing import cross, if_named, named_sentence
from core.hardware.curve import (
    _named_curve,
    card_curve,
    cases_of,
    hosts_beside,
    mixture_quantiles,
)
from core.hardware.host import NAMED_BUILDS, Conditions, Modelling, costs_of_kind, kinds
from core.hardware.interval import Modelled
from core.rounds.answer.analyse import analyse
from core.workload.spec import Target, Workload
from simulated.hosts import CARD, make_costs
from simulated.runs import make_run
from tests.core.hardware.test_curve import THERE, recording

GPU = Target(device="gpu:0")
SMALL, LARGE = Workload(network="784-512-512-10"), Workload(network="resnet8", mode="infer")
UNNAMED = Conditions(build="unnamed")
ANY_HOST = costs_of_kind("unnamed", "graph")
CARDS = tuple(catalogue().values())


def test_a_single_component_keeps_its_median_and_bounds() -> None:
    one = np.array([1.0])
    low, middle, high = mixture_quantiles(0.5 * one, 0.2 * one, 0.4 * one, one)
    assert middle == pytest.approx(0.5, abs=0.01)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.2, 0.5 + 1.96 * 0.4), abs=0.02)


def test_quantiles_of_a_mixture_agree_with_samples_of_it() -> None:
    center, down, up = np.array([0.0, 1.0]), np.array([0.1, 0.2]), np.array([0.1, 0.3])
    weights = np.array([0.7, 0.3])
    chance = np.random.default_rng(1)
    which = chance.choice(2, size=200_000, p=weights)
    z = chance.standard_normal(which.size)
    drawn = center[which] + np.where(z < 0, z * down[which], z * up[which])
    assert mixture_quantiles(center, down, up, weights) == pytest.approx(
        np.quantile(drawn, [0.025, 0.5, 0.975]), abs=0.02
    )


@pytest.mark.parametrize("spec", CARDS, ids=lambda spec: spec.name)
def test_every_card_has_hosts_and_weights_that_add_up_to_one(spec) -> None:
    hosts = hosts_beside(spec)
    assert set(hosts) <= set(kinds())
    assert sum(hosts.values()) == pytest.approx(1.0)
    cases = cases_of(spec, Modelling(SMALL, GPU, ANY_HOST, UNNAMED))
    assert sum(case.weight for case in cases) == pytest.approx(1.0)
    assert {case.how.conditions.build for case in cases} == set(NAMED_BUILDS)
    assert {case.how.costs.kind for case in cases} == set(hosts)


def test_a_notebooks_card_is_beside_a_weak_machine_and_a_new_one_beside_a_new_machine() -> None:
    cards = catalogue()
    assert max(hosts_beside(cards["T4"]), key=hosts_beside(cards["T4"]).get) == "weak"
    assert max(hosts_beside(cards["RTX-4090"]), key=hosts_beside(cards["RTX-4090"]).get) == "recent_desktop"
    assert max(hosts_beside(cards["H100-SXM"]), key=hosts_beside(cards["H100-SXM"]).get) == "recent_server"
    assert max(hosts_beside(cards["V100-16GB-PCIe"]), key=hosts_beside(cards["V100-16GB-PCIe"]).get) == "server"


def test_what_was_named_or_measured_is_used_alone() -> None:
    measured = make_costs()
    (case,) = cases_of(CARD, Modelling(SMALL, GPU, measured, Conditions(build="fused")))
    assert (case.weight, case.how.costs, case.how.conditions.build) == (1.0, measured, "fused")
    assert {case.how.costs for case in cases_of(CARD, Modelling(SMALL, GPU, measured, UNNAMED))} == {measured}
    how = Modelling(SMALL, GPU, measured, Conditions(build="keras"))
    assert card_curve(CARD, how, (1, 64)) == _named_curve(CARD, how, (1, 64), ())


@pytest.mark.parametrize("workload", [SMALL, LARGE])
def test_the_interval_holds_the_time_under_every_plausible_condition(workload) -> None:
    spanned = card_curve(CARD, Modelling(workload, GPU, ANY_HOST, UNNAMED), (1, 256))
    for case in cases_of(CARD, Modelling(workload, GPU, ANY_HOST, UNNAMED)):
        alone = _named_curve(CARD, case.how, (1, 256), ())
        for wide, point in zip(spanned.known, alone.known, strict=True):
            assert wide.low_ms < point.step_ms < wide.high_ms
            assert "nobody named" in wide.basis
            assert isinstance(wide, Modelled)


def test_a_card_of_which_a_run_was_recorded_ran_keras() -> None:
    recorded = recording(THERE, 1.3)  # another network, which moves the model without replacing it
    target = Target(device="gpu:0", execution="graph")
    how = Modelling(SMALL, target, make_costs(), UNNAMED)
    spanned = card_curve(CARD, how, (1, 64), [recorded])
    assert spanned == card_curve(CARD, how.with_build("keras"), (1, 64), [recorded])
    assert spanned.corrected_by is not None


def test_naming_the_build_gives_a_crossover_for_each() -> None:
    run = make_run(3)
    answer = analyse(run)
    how, batches = Modelling(run.plan.workload, GPU, make_costs(), UNNAMED), (1, 8, 64, 512)
    named = if_named(run, answer, 0, CARD, how, batches)
    assert [build for build, _ in named] == list(NAMED_BUILDS)
    for build, crossing in named:
        assert crossing == cross(run, answer, card_curve(CARD, how.with_build(build), batches), 0)
    assert "with Keras 3 " in named_sentence(named)
    assert if_named(run, answer, 0, CARD, how.with_build("fused"), batches) == ()
    assert named_sentence(()) == ""
