"""Costs of a host from its study: closed forms, coverage, and what is assumed without one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.host import (
    ASSUMED_OP_HIGH_US,
    ASSUMED_OP_LOW_US,
    assumed_costs,
    assumed_host,
    fit_line,
    host_lines,
    host_of_study,
    kernels_of,
)
from core.studies.host.record import host_cells
from tests.support.hosts import TRUE_OP_US, TRUE_STEP_US, make_costs, make_host_study, with_blocks


@given(st.floats(1.0, 1e4), st.floats(0.0, 1e3), st.lists(st.integers(1, 900), min_size=2, max_size=5, unique=True))
def test_a_line_without_noise_is_found_exactly(step_us: float, op_us: float, counts: list[int]):
    found = fit_line(np.array(counts, float), step_us + op_us * np.array(counts, float))
    assert found[0] == pytest.approx(step_us, rel=1e-5, abs=1e-5 * (step_us + op_us * max(counts)))
    assert found[1] == pytest.approx(op_us, rel=1e-5, abs=1e-5 * (step_us + op_us))


@given(st.lists(st.floats(1.0, 1e5), min_size=3, max_size=3))
def test_no_cost_is_negative_and_the_line_stays_within_the_times(times: list[float]):
    counts = np.array([10.0, 100.0, 600.0])
    step_us, op_us = fit_line(counts, np.array(times))
    assert step_us >= 0
    assert op_us >= 0
    line = step_us + op_us * counts
    assert (line / times).min() <= 1.0 + 1e-9
    assert (line / times).max() >= 1.0 - 1e-9


def test_costs_of_a_study_without_noise_are_the_true_ones_an_operation_as_the_model_counts_them():
    study = make_host_study()
    for line in host_lines(study):
        assert line.step.us == pytest.approx(TRUE_STEP_US[line.execution])
        assert line.op.us == pytest.approx(TRUE_OP_US[line.execution])
        assert line.misfit == pytest.approx(0.0, abs=1e-9)
    graph, xla, eager = (host_of_study(study, "train", one).host for one in ("graph", "xla", "eager"))
    assert graph.label == "measured"
    assert (graph.step_us, graph.per_op_us) == pytest.approx((300.0, 2.0))
    assert (xla.step_us, xla.xla_call_us) == pytest.approx((300.0, 40.0))  # together the compiled step's 340
    assert (eager.step_us, eager.eager_op_us) == pytest.approx((900.0, 60.0))
    counts = {(c.execution, c.mode, c.depth): kernels_of(study, i) for i, c in enumerate(study.cells)}
    assert counts["graph", "train", 20] > counts["graph", "train", 8] > counts["graph", "infer", 8] > 0
    assert counts["xla", "train", 2] == counts["graph", "train", 2]


def test_a_compiled_step_cheaper_than_a_graph_needs_no_call_and_a_curved_law_shows_as_misfit():
    cells = host_cells()
    study = make_host_study(cells=cells)
    cheap = with_blocks(
        study, lambda one: one.model_copy(update={"step_ms": 0.1}) if cells[one.cell].execution == "xla" else one
    )
    host = host_of_study(cheap, "infer", "xla").host
    assert (host.step_us, host.xla_call_us) == pytest.approx((100.0, 0.0))
    factors = [1.5 if cell.depth == 8 else 1.0 for cell in study.cells]
    bent = with_blocks(study, lambda one: one.model_copy(update={"step_ms": one.step_ms * factors[one.cell]}))
    found = {(line.execution, line.mode): line for line in host_lines(bent)}
    assert found["graph", "train"].misfit > 0.1
    assert found["xla", "train"].misfit == 0.0


def test_intervals_hold_the_true_costs_as_often_as_they_say_and_too_few_rounds_have_none():
    rng = np.random.default_rng(7)
    inside = [
        line.op.low_us <= TRUE_OP_US[line.execution] <= line.op.high_us
        for _ in range(60)
        for line in host_lines(make_host_study(rng, noise=0.05))
        if (line.execution, line.mode) in {("graph", "train"), ("eager", "train")}
    ]
    assert len(inside) == 120
    assert 0.9 <= np.mean(inside) <= 1.0  # of nine rounds the second and eighth: 96 %
    for line in host_lines(make_host_study(noise=0.05, rounds=4)):
        assert (line.step.low_us, line.op.high_us) == (None, None)
    few = host_of_study(make_host_study(rounds=4))
    assert (few.step.low_us, few.step.high_us) == (None, None)
    assert len(few.bounds()) == 1  # what a driver may add is unknown however many rounds there are


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_what_a_gpus_driver_adds_is_allowed_for_where_operations_are_dispatched(execution):
    study = make_host_study()
    line = next(line for line in host_lines(study) if (line.execution, line.mode) == (execution, "train"))
    op = host_of_study(study, "train", execution).op
    assert op.us == line.op.us
    assert op.high_us == (line.op.high_us if execution == "xla" else max(line.op.high_us, ASSUMED_OP_HIGH_US))


def test_an_execution_that_was_not_measured_is_refused_and_another_machines_study_is_recorded():
    study = make_host_study(cells=[cell for cell in host_cells() if cell.execution == "graph"])
    with pytest.raises(ValueError, match="no xla steps in training; measure the host again"):
        host_of_study(study, "train", "xla")
    assert host_of_study(study).host.eager_op_us == assumed_host().eager_op_us
    study = make_host_study().model_copy(update={"label": "recorded"})
    assert (host_of_study(study).label, host_of_study(make_host_study()).label) == ("recorded", "measured")


def test_without_a_study_the_published_spread_is_assumed_and_says_so():
    costs = assumed_costs("graph")
    assert (costs.label, costs.host.label) == ("assumed", "assumed")
    assert costs.source.startswith("assumed: published")
    assert (costs.op.low_us, costs.op.high_us) == (ASSUMED_OP_LOW_US, ASSUMED_OP_HIGH_US)
    assert costs.op.low_us < costs.host.per_op_us < costs.op.high_us
    assert len(assumed_costs("xla").bounds()) == 1


def test_bounds_change_one_cost_at_a_time():
    costs = make_costs(step_us=100.0, op_us=4.0, spread=2.0)
    (step_low, step_high), (op_low, op_high) = costs.bounds()
    assert (step_low.step_us, step_high.step_us) == (50.0, 200.0)
    assert (step_low.per_op_us, op_low.step_us) == (4.0, 100.0)
    assert (op_low.per_op_us, op_high.per_op_us) == (2.0, 8.0)
