"""Costs of a host from its study: closed forms, coverage, and what is assumed without one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.host import KIND_WORDS, costs_of_kind, kind_of, kinds
from core.hardware.host_record import host_cells
from core.hardware.host_study import (
    DRIVER_HIGH_US,
    DRIVER_LOW_US,
    DRIVER_US,
    as_if_measured,
    fit_line,
    host_lines,
    host_of_study,
    kernels_of,
    with_loop_of,
)
from core.rounds.answer.loop import added
from simulated.hosts import TRUE_OP_US, TRUE_STEP_US, make_costs, make_host_study, with_blocks
from simulated.runs import make_environment, make_run
from tests.support.loops import loop_cost, with_loops


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
    assert (graph.step_us, graph.per_op_us) == pytest.approx((300.0, 2.0 + DRIVER_US))
    assert (xla.step_us, xla.xla_call_us) == pytest.approx((300.0, 40.0))  # together the compiled step's 340
    assert (eager.step_us, eager.eager_op_us) == pytest.approx((900.0, 60.0 + DRIVER_US))
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
    assert len(few.bounds()) == 1  # the driver's part stays unknown with any number of rounds


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_what_a_gpus_driver_adds_is_allowed_for_where_operations_are_dispatched(execution):
    study = make_host_study()
    dispatched = "graph" if execution == "xla" else execution
    line = next(line for line in host_lines(study) if (line.execution, line.mode) == (dispatched, "train"))
    op = host_of_study(study, "train", execution).op
    assert 0 < DRIVER_LOW_US < DRIVER_US < DRIVER_HIGH_US
    assert op.us == line.op.us + DRIVER_US
    assert (op.low_us, op.high_us) == (line.op.low_us + DRIVER_LOW_US, line.op.high_us + DRIVER_HIGH_US)


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_an_assumed_host_that_is_measured_as_it_was_assumed_leaves_the_drivers_part_open_alone(execution):
    costs = costs_of_kind("desktop", execution)
    measured = as_if_measured(costs)
    assert (measured.label, measured.host.label, measured.kind, measured.spread) == ("measured", "measured", None, None)
    assert measured.host == costs.host.model_copy(update={"label": "measured"})
    ((low, high),) = measured.bounds()
    field = "eager_op_us" if execution == "eager" else "per_op_us"
    added = (DRIVER_LOW_US - DRIVER_US, DRIVER_HIGH_US - DRIVER_US)
    assert [getattr(one, field) - getattr(costs.host, field) for one in (low, high)] == pytest.approx(added)


def test_an_execution_that_was_not_measured_is_refused_and_another_machines_study_is_recorded():
    study = make_host_study(cells=[cell for cell in host_cells() if cell.execution == "graph"])
    with pytest.raises(ValueError, match="no xla steps"):
        host_of_study(study, "train", "xla")
    assert host_of_study(study).host.eager_op_us == costs_of_kind("recent_desktop", "graph").host.eager_op_us
    study = make_host_study().model_copy(update={"label": "recorded"})
    assert (host_of_study(study).label, host_of_study(make_host_study()).label) == ("recorded", "measured")


@pytest.mark.parametrize("execution", ["graph", "eager", "xla"])
def test_a_kind_of_host_is_assumed_and_a_weak_ones_steps_cost_more(execution):
    found = {kind: costs_of_kind(kind, execution) for kind in kinds()}
    assert {*found, "unnamed"} == set(KIND_WORDS)
    for kind, costs in found.items():
        assert (costs.label, costs.host.label, costs.fit.label, costs.kind) == ("assumed", "assumed", "assumed", kind)
        assert costs.words == f"assumed, {KIND_WORDS[kind]}"
        assert costs.source.startswith(f"Assumed for {KIND_WORDS[kind]}: ")
        assert costs.step.low_us < costs.step.us < costs.step.high_us
        assert costs.host.fit_us == costs.fit.us > 0
        ((low, high),) = costs.bounds()
        assert low.step_us < costs.host.step_us < high.step_us
        assert low.fit_us < costs.host.fit_us < high.fit_us
    weak, desktop = found["weak"], found["desktop"]
    assert weak.step.us > desktop.step.us


def test_bounds_change_one_cost_at_a_time():
    costs = make_costs(step_us=100.0, op_us=4.0, spread=2.0)
    (step_low, step_high), (op_low, op_high) = costs.bounds()
    assert (step_low.step_us, step_high.step_us) == (50.0, 200.0)
    assert (step_low.per_op_us, op_low.step_us) == (4.0, 100.0)
    assert (op_low.per_op_us, op_high.per_op_us) == (2.0, 8.0)
    *_, (fit_low, fit_high) = costs.bounds(under_fit=True)
    assert (fit_low.fit_us, fit_high.fit_us, fit_low.step_us) == (100.0, 400.0, 100.0)


def test_what_fit_costs_on_a_measured_host_is_a_desktops_unless_a_run_of_that_machine_measured_it():
    here = make_environment()
    study, run = make_host_study().model_copy(update={"environment": here}), with_loops(make_run(1), loop_cost(0))
    costs = host_of_study(study)
    assert (costs.label, costs.kind, costs.words) == ("measured", None, "measured")
    assert costs.fit == costs_of_kind("recent_desktop", "graph").fit
    assert costs.host.fit_us == costs.fit.us
    from_run = with_loop_of(costs, here, run, 0)
    assert from_run.fit.us == from_run.host.fit_us == pytest.approx(1000 * added(run.loops[0]).step_ms)
    assert (from_run.fit.label, from_run.step) == (run.label, costs.step)
    assert run.name in from_run.fit.source
    other = here.model_copy(update={"hostname_hash": "0"})
    assert with_loop_of(costs, other, run, 0) == with_loop_of(costs, None, run, 0) == costs
    assert with_loop_of(costs, here, run.model_copy(update={"loops": ()}), 0) == costs


@pytest.mark.parametrize(
    ("cpu", "cores", "kind"),
    [
        ("AMD EPYC", 2, "weak"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", 8, "unnamed"),
        ("AMD EPYC 7742 64-Core Processor", 128, "server"),
        ("AMD EPYC 7763 64-Core Processor", 64, "recent_server"),
        ("AMD EPYC 9654 96-Core Processor", 192, "recent_server"),
        ("Intel(R) Xeon(R) Gold 6240R CPU @ 2.40GHz", 48, "server"),
        ("Intel(R) Xeon(R) Platinum 8480+", 112, "recent_server"),
        ("Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", 8, "desktop"),
        ("13th Gen Intel(R) Core(TM) i7-13700KF", 24, "recent_desktop"),
        ("AMD Ryzen 5 3600 6-Core Processor", 12, "desktop"),
        ("AMD Ryzen 9 7950X 16-Core Processor", 32, "recent_desktop"),
        ("Apple M2", 8, "unnamed"),
        ("", None, "unnamed"),
    ],
)
def test_a_machine_is_of_the_kind_that_its_processor_is(cpu, cores, kind):
    assert kind_of(cpu, cores) == kind
