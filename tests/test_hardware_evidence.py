"""Fit, error classes and evidence of the hardware model's benchmark: closed forms, and intervals that cover."""

from dataclasses import fields

import numpy as np
import pytest

from benchmarks import hardware_given
from benchmarks.evidence.measured_here import measured_rows
from benchmarks.evidence.operations import Column, Points, available
from benchmarks.evidence.rows import NetworkRow
from benchmarks.evidence.table import Evidence, groups, joined, of_networks, of_points
from benchmarks.hardware_classes import (
    ALIKE,
    ALL_NETWORKS,
    APART,
    FEWEST,
    HELD,
    LEAST_SHARE,
    LENT,
    LEVEL,
    REGIONS,
    UNDER_FIT,
    WIDER,
    Judged,
    bounds,
    calibrated,
    classes,
    error_class,
    quantiles,
    spreads,
    without_own_fold,
)
from benchmarks.hardware_fit import (
    LEAST_OF,
    PARAMETERS,
    MachineHost,
    _line,
    fitted_of,
    predict_rows,
    prepare,
    robust_least_squares,
)
from core.hardware.constants import KINDS
from core.hardware.host import Conditions, HostOverhead
from core.hardware.interval import FEED_SPREAD
from core.hardware.model import predict
from core.hardware.work import OpTable, ops_of, step_table
from core.workload.spec import Execution, Target
from simulated.hardware import GPU, plain_constants, round_card, workload


def judged(error, **columns) -> Judged:
    """Return held-out errors of a CNN limited by arithmetic, each step by itself, unless given otherwise."""
    size, region = len(error), columns.get("region", "arithmetic")
    given = {
        "family": "cnn", "kind": "cnn", "region": "arithmetic", "way": "chip", "fold": "", "gpu": "T", "source": "S",
        "phase": "train", "machine": "kind:server", "host_share": 0.1, "feed_share": 0.0, "batch": 64.0,
        "under_fit": False, "weight": 1.0,
    }  # fmt: skip
    return Judged(
        error=np.asarray(error, float),
        shares=np.tile([float(region == each) for each in REGIONS], (size, 1)),
        **{name: np.broadcast_to(np.array(columns.get(name, value)), size).copy() for name, value in given.items()},
    )


def both(*parts: Judged) -> Judged:
    return Judged(*(np.concatenate(columns) for columns in zip(*(vars(p).values() for p in parts), strict=True)))


def test_weighted_quantiles_by_hand() -> None:
    values, even = np.array([3.0, 1.0, 2.0]), np.ones(3)
    assert quantiles(values, even, (0.5, 0.0, 1.0)).tolist() == [2.0, 1.0, 3.0]
    # weights 1, 1 and 2 stand at 0.5, 1.5 and 3 of 4
    weights = np.array([2.0, 1.0, 1.0])
    assert quantiles(values, weights, (0.125, 0.375, 0.75)) == pytest.approx([1.0, 2.0, 3.0])
    assert quantiles(values, weights, (0.5625,)) == pytest.approx([2.5])


def test_a_class_keeps_the_quantiles_of_its_errors_and_how_cards_differ() -> None:
    found = error_class(judged(np.linspace(-1, 1, 201), gpu=["A"] * 100 + ["B"] * 101))
    assert (found.gpus, found.points, found.median) == (2, 201, pytest.approx(0.0, abs=1e-9))
    assert (found.low_90, found.high_95) == (pytest.approx(-0.9, abs=0.02), pytest.approx(0.95, abs=0.02))
    assert found.between == pytest.approx(np.std([-0.505, 0.5], ddof=1))
    wider = error_class(judged(np.linspace(-1, 1, 201)), 1.5, "others")
    assert (wider.high_90, wider.borrowed, wider.between) == (pytest.approx(1.5 * found.high_90), "others", 0.0)
    assert error_class(judged(np.linspace(0.1, 1, 50))).low_95 == 0.0  # the interval includes the model's own number
    twice = both(judged([0.1] * 10), judged([0.1] * 10, way="source"))
    assert error_class(twice).points == 10


def launch_bound(chance: np.random.Generator, **columns) -> Judged:
    """Return errors of dense layers, whose host is known, and of networks."""
    launches = [
        judged(0.1 * chance.standard_normal(100), family="dense", kind="dense layer", region="launch", phase=phase,
               **columns)
        for phase in ("train", "infer")
    ]  # fmt: skip
    return both(*launches, judged(0.3 * chance.standard_normal(100), kind="cnn", region="launch", host_share=0.8,
                                  **columns))  # fmt: skip


def test_a_class_with_few_points_borrows_and_launches_are_those_of_dense_layers() -> None:
    chance = np.random.default_rng(5)
    many, few = 0.2 * chance.standard_normal(200), 0.2 * chance.standard_normal(FEWEST - 1)
    found = both(launch_bound(chance), judged(many), judged(few, family="transformer", kind="transformer"))
    made = classes(found)
    assert made["cnn/arithmetic"].borrowed is None
    assert made["cnn/arithmetic"].points == 200
    assert (made["cnn/bandwidth"].borrowed, made["cnn/bandwidth"].points) == (ALIKE, 200), "its own, of another region"
    for name in ("transformer/arithmetic", "other/arithmetic", "dense/bandwidth"):
        assert made[name].borrowed == ALL_NETWORKS
        assert made[name].points == 200 + FEWEST - 1
    everything = error_class(judged([*many, *few]))
    assert made["other/bandwidth"].high_95 == pytest.approx(WIDER * everything.high_95)
    assert made["dense/launch/train"].borrowed is None
    assert made["cnn/launch/infer"].borrowed == LENT["launch"]
    assert made["cnn/launch/infer"].high_95 == made["dense/launch/infer"].high_95 < 0.4
    assert made["cnn/launch/assumed"].high_95 == made["cnn/launch/assumed"].low_95 == 0.0
    card = APART[0]
    beside = classes(both(found, judged(0.5 * chance.standard_normal(100), gpu=card)))
    assert beside[f"cnn/arithmetic/{card}"].high_95 > 2 * beside["cnn/arithmetic"].high_95
    assert beside["cnn/arithmetic"] == made["cnn/arithmetic"]
    assert f"cnn/arithmetic/{card}" not in made


def test_a_kind_of_hosts_spread_holds_so_many_of_its_launch_bound_steps_or_those_of_all_kinds() -> None:
    errors = np.linspace(-0.5, 0.5, 1001)
    launches = {"region": "launch", "kind": "cnn", "host_share": 1.0}
    found = both(
        judged(errors, machine="kind:server", **launches),
        judged(2 * errors, machine="kind:desktop", **launches),
        judged([9.0] * 5, machine="kind:weak", **launches),
        judged([9.0] * 50, machine="kind:server"),  # arithmetic says nothing about hosts
    )
    spread = spreads(found, 0.9)
    assert spread["kind:server"] == pytest.approx(np.exp(0.45), rel=0.01)
    assert spread["kind:desktop"] == pytest.approx(np.exp(0.9), rel=0.01)
    assert spread["kind:server"] < spread["kind:weak"] < spread["kind:desktop"]
    half = spreads(judged(errors, machine="kind:server", **{**launches, "host_share": 0.5}), 0.9)
    assert half["kind:server"] == pytest.approx(np.exp(0.9), rel=0.01)  # half of the step is the host's


@pytest.mark.parametrize(("between", "within"), [(0.3, 0.1), (0.1, 0.3), (0.2, 0.2)])
def test_intervals_made_without_a_source_hold_of_its_steps_as_many_as_they_say(between: float, within: float) -> None:
    chance = np.random.default_rng(11)
    parts = [launch_bound(chance, way="source", fold=fold) for fold in ("l1", "l2")]
    for number in range(60):
        error = between * chance.standard_normal() + within * chance.standard_normal(10)
        parts.append(judged(error, way="source", fold=f"f{number}", source=f"s{number}", gpu=f"g{number % 7}"))
    found = both(*parts)
    low, high = without_own_fold(found, 0.9)
    mine = found.region == "arithmetic"
    inside = (found.error >= low) & (found.error <= high)
    assert 0.85 <= float(np.mean(inside[mine])) <= 0.97


@pytest.mark.statistical
def test_steps_under_fit_are_widened_until_enough_of_them_are_held_and_others_are_not() -> None:
    chance = np.random.default_rng(13)
    parts = [launch_bound(chance, way="source", fold=fold) for fold in ("l1", "l2")]
    for number in range(60):
        error = 0.2 * chance.standard_normal(10)
        names = {"way": "source", "fold": f"f{number}", "source": f"s{number}", "gpu": f"g{number % 7}"}
        parts.append(judged(error, **names))
        parts.append(judged(1.6 * error[:1], under_fit=True, **names))
        parts.append(judged([0.0] * 3, under_fit=True, host_share=0.9, **names))  # the host's: they say nothing here
    every = both(*parts)
    wider = calibrated(every)
    assert wider["cnn"] == pytest.approx(1.0, abs=0.1)
    assert wider[UNDER_FIT] == pytest.approx(1.4, abs=0.2)  # of the 95 % interval, for 92 % of 1.6 times the errors
    low, high = without_own_fold(every, LEVEL, wider)
    inside = (every.error >= low) & (every.error <= high)
    assert np.mean(inside[every.under_fit & (every.host_share < LEAST_SHARE)]) == pytest.approx(HELD, abs=0.03)
    plain = without_own_fold(every, LEVEL, {**wider, UNDER_FIT: 1.0})
    assert np.array_equal(high[~every.under_fit], plain[1][~every.under_fit])


def test_a_step_that_waits_for_its_batch_has_the_spread_of_the_copy() -> None:
    errors = judged([0.0, 0.0], feed_share=[0.0, 1.0])
    none = dict.fromkeys(("cnn/launch/assumed", "cnn/bandwidth", "cnn/arithmetic"), error_class(judged([0.0] * 30)))
    low, high = bounds(errors, none, {}, 0.95, 1.0)
    assert (low[0], high[0]) == (0.0, 0.0)
    assert (low[1], high[1]) == (pytest.approx(-np.log(FEED_SPREAD)), pytest.approx(np.log(FEED_SPREAD)))


def test_the_spread_of_a_host_is_no_wider_under_fit_and_the_rest_is_by_its_factor() -> None:
    errors = judged([0.0] * 4, machine="kind:weak", host_share=[1.0, 1.0, 0.0, 0.0], under_fit=[False, True] * 2)
    known = {"cnn/arithmetic": error_class(judged(np.linspace(-1, 1, 30)))}
    nothing = error_class(judged([0.0] * 30))
    by = dict.fromkeys(("cnn/launch/assumed", "cnn/bandwidth"), nothing) | known
    _, high = bounds(errors, by, {"kind:weak": 2.0}, 0.95, 1.5)
    own = known["cnn/arithmetic"].high_95
    widths = (np.hypot(np.log(2), own), np.hypot(np.log(2), 1.5 * own), own, 1.5 * own)
    assert high == pytest.approx(np.array(widths))


def test_a_card_with_errors_of_its_own_has_their_bounds_and_others_those_of_the_rest() -> None:
    card = APART[0]
    wide = error_class(judged(np.linspace(-1, 1, 30)))
    none = dict.fromkeys(("cnn/launch/assumed", "cnn/bandwidth", "cnn/arithmetic"), error_class(judged([0.0] * 30)))
    known = {**none, f"cnn/arithmetic/{card}": wide}
    low, high = bounds(judged([0.0, 0.0], gpu=[card, "A100-40GB-SXM"]), known, {}, 0.95, 1.0)
    assert (low[0], high[0]) == (pytest.approx(wide.low_95), pytest.approx(wide.high_95))
    assert (low[1], high[1]) == (0.0, 0.0)


def dense_points(size: int, source: str = "made up") -> Points:
    """Return steps of a product of 1, 2, … MFLOP and an element-wise operation each."""
    number = np.arange(1.0, size + 1)
    columns = (
        Column("dense", "fp32", 1e6 * number[:, None], number[:, None], np.ones((size, 1)), tiles=8 * number[:, None]),
        Column("elementwise", "fp32", number[:, None], 5 * number[:, None], 2 * np.ones((size, 1))),
    )
    names = np.array([f"card {i % 2}" for i in range(size)])
    return Points(source, "GEMM", "infer", names, np.full(size, "none"), number, number, 3 * np.ones(size),
                  np.zeros(size, dtype=bool), columns)  # fmt: skip


def flops_by_step(evidence: Evidence) -> list[float]:
    return np.bincount(evidence.row, evidence.ops.flops * evidence.times, len(evidence)).tolist()


def test_points_and_networks_as_evidence_keep_steps_and_their_operations_together() -> None:
    first, second = of_points(dense_points(4)), of_points(dense_points(3, "another"))
    whole = joined([first, second])
    expected = [(1e6 + 1) * n for n in (1, 2, 3, 4, 1, 2, 3)]
    assert flops_by_step(whole) == expected
    keep = np.array([False, True, False, True, True, False, True])
    some = whole.where(keep)
    assert flops_by_step(some) == [flops for flops, kept in zip(expected, keep, strict=True) if kept]
    assert some.source.tolist() == ["made up"] * 2 + ["another"] * 2
    assert some.measured_ms.tolist() == [2, 4, 1, 3]
    assert set(whole.ops.tensor[whole.ops.kind == KINDS.index("dense")]) == {True}
    assert not whole.ops.tensor[whole.ops.kind == KINDS.index("elementwise")].any()
    assert len(whole.where(~keep)) == 3
    by = {gpu: set(whole.gpu[whole.row[at]]) for gpu, _, at in groups(whole)}
    assert by == {"card 0": {"card 0"}, "card 1": {"card 1"}}
    assert sum(len(at) for *_, at in groups(whole)) == len(whole.row)


def test_a_network_as_evidence_has_the_operations_that_the_model_predicts_it_by() -> None:
    asked = workload("resnet8")
    row = NetworkRow(
        source="a table", group="one machine", kind="cnn", gpu="Round", workload=asked, target=GPU,
        conditions=Conditions(fed=True, build="fused"), host="server", batch=32, step_ms=10.0,
    )  # fmt: skip
    found = of_networks([row], {"Round": round_card()}, plain_constants())
    ops, table = ops_of(asked, GPU, 32, "fused"), step_table(asked, GPU, 32, "fused")
    assert (found.machine.tolist(), found.fused.tolist(), found.compiled.tolist()) == (["kind:server"], [True], [False])
    assert found.host_ops == pytest.approx([sum(op.kernels for op in ops)])
    assert found.transfer_ms > 0
    assert len(found.row) < len(ops)  # repeated blocks are stored once
    for name in ("kernels", "flops", "bytes"):
        assert float(found.times @ getattr(found.ops, name)) == pytest.approx(float(getattr(table, name).sum()))
    assert {f.name for f in fields(OpTable)} == set(vars(found.ops))


@pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
@pytest.mark.parametrize("channels_first", [False, True])
def test_the_fit_predicts_a_network_as_the_model_does(execution: Execution, channels_first: bool) -> None:
    asked, card = workload("cnn-32x32x3-64x6-k3-bn-max-10"), round_card(tdp_w=40.0)
    target = Target(device="gpu:0", precision="mixed_float16", execution=execution)
    conditions = Conditions(fed=True, build="fused", channels_first=channels_first)
    row = NetworkRow("a table", "one machine", "cnn", "Round", asked, target, conditions, "server", 32, 10.0)
    values = {name: start for name, (start, _, _) in PARAMETERS.items()}
    fitted = fitted_of(values.values())
    evidence = of_networks([row], {"Round": card}, fitted.constants)
    (step_ms,) = predict_rows(prepare(evidence), {"Round": card}, {}, fitted).step_ms
    costs = fitted.hosts["kind:server"]
    host = HostOverhead(
        per_op_us=1e3 * costs.op_ms, xla_call_us=1e3 * costs.xla_ms, eager_op_us=1e3 * costs.eager_ms,
        step_us=1e3 * costs.step_ms, label="assumed",
    )  # fmt: skip
    assert step_ms == pytest.approx(predict(card, asked, target, 32, host, fitted.constants, conditions).step_ms)


def test_a_generation_is_fitted_as_a_share_of_the_one_before_and_power_by_process() -> None:
    values = {name: start for name, (start, _, _) in PARAMETERS.items()}
    changed = {"generation Ampere dense": 1.1, "generation Ada dense": 1.2, "generation Turing dense": 0.5}
    made = fitted_of((values | changed | {"power 5 nm": 7.0}).values()).constants
    dense = {name: each.dense for name, each in made.generations.items()}
    assert dense["Turing"] == LEAST_OF["dense"]
    assert dense["Ampere"] == pytest.approx(0.75 * 1.1)
    assert dense["Ada"] == dense["Blackwell"] == pytest.approx(0.75 * 1.1 * 1.2)
    assert dense["Hopper"] == dense["Ampere, HBM"] == 1.0
    watts = made.power.watts_per_tflop
    assert watts["Ada"] == watts["Hopper"] == watts["Blackwell, HBM"] == 7.0
    assert watts["Pascal"] == values["power 16 nm"]


def test_the_fit_finds_known_constants_despite_outliers_and_a_hosts_line() -> None:
    chance = np.random.default_rng(3)
    x = np.linspace(1, 4, 300)
    y = 0.7 * x**1.5 * np.exp(0.02 * chance.standard_normal(300))
    y[::10] *= 3

    def residuals(values):
        return np.log(y) - np.log(values[0] * x ** values[1])

    low, high = np.array([0.1, 0.1]), np.array([5.0, 5.0])
    found = robust_least_squares(residuals, np.array([2.0, 0.5]), low, high, np.ones(300))
    assert found == pytest.approx([0.7, 1.5], rel=0.03)
    line = _line({3.0: 0.16, 23.0: 0.36, 43.0: 0.56})
    assert (line.step_ms, line.op_ms) == (pytest.approx(0.13), pytest.approx(0.01))
    assert _line({1.0: 0.05}) == MachineHost(0.05, 0.0)


@pytest.mark.skipif(not available(), reason="needs the published steps in ../shared/data/published")
def test_both_models_are_compared_on_every_published_step() -> None:
    rows = [row for row in hardware_given.network_rows() if row.gpu not in hardware_given.NEVER_FITTED]
    keys = [hardware_given.key(row) for row in rows if not row.upper]
    assert len(set(keys)) == len(keys) > 2000
    measured = {hardware_given.key(row) for row in measured_rows()}
    assert len(measured) == 18
    assert set(keys) - measured == set(hardware_given.earlier())
    assert sum(named is None for named, _ in hardware_given.earlier().values()) == 277
