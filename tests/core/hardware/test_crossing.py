"""Crossovers of a modelled card and a measured CPU: closed forms, coverage, and sentences without a crossover."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.analysis.statistics import t_quantile
from core.base.evidence import Warning
from core.hardware.constants import constants
from core.hardware.crossing import cross, solve_fact, speed_up, what_would_have_to_be_true
from core.hardware.curve import card_curve
from core.hardware.host import Conditions, Modelling
from core.hardware.model import predict
from core.rounds.answer.answer import Machine
from core.rounds.answer.observations import ALLOWANCE, ALLOWANCE_DF
from core.workload.spec import Target
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve

BATCHES = tuple(2**i for i in range(11))
POWER = 0.8  # the CPU's step time is 0.1 ms · batch^0.8: a straight line over log2(batch), as interpolation is
GPU = Target(device="gpu:0")


def cpu_ms(batch: float) -> float:
    return 0.1 * batch**POWER


def crossing_of(gpu_ms: float) -> float:
    """Return the batch at which the CPU's step time is gpu_ms."""
    return (gpu_ms / 0.1) ** (1 / POWER)


def found(curve, run=None):
    run = run or cpu_run(cpu_ms, BATCHES)
    return cross(run, cells_of(run), curve)


@settings(max_examples=25)
@given(st.floats(0.2, 10.0), st.floats(0.05, 0.5), st.floats(0.05, 0.5))
def test_a_shift_of_the_modelled_curve_moves_the_crossover_as_computed(gpu_ms: float, down: float, up: float):
    one = found(make_curve(lambda _: gpu_ms, BATCHES, -down, up))
    assert one.kind == "from"
    assert one.batch == pytest.approx(crossing_of(gpu_ms), rel=1e-6)
    # a card that is faster than modelled by exp(down) crosses earlier, a slower one later
    assert one.high == pytest.approx(crossing_of(gpu_ms * math.exp(up)), rel=1e-6)
    low = crossing_of(gpu_ms * math.exp(-down))
    if low > 1:
        assert one.low == pytest.approx(low, rel=1e-6)
    else:
        assert one.low is None
    assert one.label == "modelled"
    assert one.sentence.startswith("Modelled: Card 1 is faster than the CPU's best (1 thread) from batch ")


@settings(max_examples=25)
@given(st.floats(0.05, 20.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@example(0.25, 1.0, 1.0)  # nothing bounds the crossover below
def test_every_batch_in_a_sentence_is_whole_and_the_first_at_which_the_card_is_ahead_or_clearly_ahead(
    gpu_ms: float, down: float, up: float
):
    crossover = found(make_curve(lambda _: gpu_ms, BATCHES, -down, up))
    assert not re.search(r"(batch|interval|to|less) [\d,]*\.\d", crossover.sentence.split(" (")[0])
    if crossover.kind == "from" and crossover.batch > 1:
        ahead_from = crossover.high if crossover.low is None else crossover.batch
        whole = int(re.search(r"from batch ([\d,]+)", crossover.sentence)[1].replace(",", ""))
        assert whole - 1 < ahead_from <= whole + 1e-6


def test_both_noises_add_as_squares_and_processes_that_were_not_seen_are_allowed_for():
    run = cpu_run(cpu_ms, BATCHES, offsets=(-0.1, 0.0, 0.1))
    half = 4.302653 * 0.1 / math.sqrt(3)  # t with two degrees of freedom
    one = found(make_curve(lambda _: 1.0, BATCHES, -0.2, 0.2), run)
    both = math.hypot(half, 0.2)
    assert one.low == pytest.approx(crossing_of(math.exp(-both)), rel=1e-4)
    assert one.high == pytest.approx(crossing_of(math.exp(both)), rel=1e-4)
    run = cpu_run(cpu_ms, BATCHES, offsets=(0.0, 0.0), rounds=4)
    half = t_quantile(0.975, int(ALLOWANCE_DF)) * ALLOWANCE / math.sqrt(2)
    one = found(make_curve(lambda _: 1.0, BATCHES), run)
    assert one.high == pytest.approx(crossing_of(math.exp(half)), rel=1e-5)


def test_nothing_is_claimed_beside_a_cpu_whose_noise_is_not_known():
    run = cpu_run(cpu_ms, BATCHES, offsets=(0.0,), rounds=1).model_copy(update={"processes": ()})
    one = found(make_curve(lambda _: 1.0, BATCHES, -0.2, 0.2), run)
    assert not one.cpu_noise_known
    assert (one.kind, one.batch, one.low, one.high, one.clear, one.clearly_from) == (
        "not resolved", None, None, None, (), None,
    )  # fmt: skip
    assert one.sentence.endswith("Measure more.")


@pytest.mark.parametrize(
    ("machine", "advice"),
    [(Machine(), "Measure more."), (Machine(quiet=False), "Close other programs and measure again.")],
)
def test_nothing_is_claimed_beside_a_verdict_that_is_open_for_want_of_replicates(machine, advice):
    run = cpu_run(cpu_ms, BATCHES)
    answer = cells_of(run)
    few = (Warning(code="few_replicates", text=""),)
    verdict = replace(answer.verdict, kind="inconclusive", reason="straddles", crossovers=(), lead=None, warnings=few,
                      machine=machine)  # fmt: skip
    curve = make_curve(lambda _: 1.0, BATCHES, -0.2, 0.2)
    one = cross(run, replace(answer, verdict=verdict), curve)
    assert (one.kind, one.clear) == ("not resolved", ())
    assert one.why_no_claim.endswith(advice)
    assert cross(run, replace(answer, verdict=replace(verdict, warnings=())), curve).kind == "from"


@pytest.mark.parametrize("draws", [60, pytest.param(400, marks=pytest.mark.statistical)])
def test_the_interval_holds_the_true_crossover_when_the_error_is_drawn_from_its_own_distribution(draws: int):
    rng = np.random.default_rng(3)
    down, up = 0.45, 0.25  # asymmetric 95 % bounds of log(true / modelled): a normal of two halves
    hits = []
    for _ in range(draws):
        z = rng.normal() / 1.959964
        error = z * (up if z > 0 else down)
        run = cpu_run(cpu_ms, BATCHES[:9:4], offsets=tuple(rng.normal(0, 0.04, 4)), rounds=1)
        one = found(make_curve(lambda _: 1.5, BATCHES, -down, up), run)
        truth = crossing_of(1.5 * math.exp(error))
        hits.append(one.low <= truth <= one.high)
    assert 0.92 <= np.mean(hits) <= 0.985


@pytest.mark.parametrize("draws", [60, pytest.param(300, marks=pytest.mark.statistical)])
def test_the_models_error_alone_would_not_do_where_the_cpu_is_noisy(draws: int):
    """Check coverage with a precise model and a noisy CPU: the interval must come from the CPU."""
    rng = np.random.default_rng(4)
    hits, widths = [], []
    for _ in range(draws):
        run = cpu_run(cpu_ms, BATCHES[:9:4], offsets=tuple(rng.normal(0, 0.2, 4)), rounds=1)
        one = found(make_curve(lambda _: 1.5, BATCHES, -0.02, 0.02), run)
        hits.append((one.low or 0.0) <= crossing_of(1.5) <= (one.high or math.inf))
        widths.append(math.log((one.high or 256.0) / (one.low or 1.0)))
    assert 0.92 <= np.mean(hits) <= 0.985
    assert np.median(widths) > 0.3


def test_ahead_throughout_names_the_range_and_a_card_not_surely_ahead_has_an_upper_bound():
    assert (found(make_curve(lambda _: 0.01, BATCHES, -0.3, 0.3)).kind) == "gpu ahead throughout"
    slow = found(make_curve(lambda _: 100.0, BATCHES[:6], -0.3, 0.3))
    assert slow.kind == "cpu ahead throughout"
    assert "1 to 32" in slow.sentence
    assert (slow.batch, slow.first, slow.last) == (None, 1, 32)
    below = found(make_curve(lambda _: 0.09, BATCHES, -0.5, 0.5))
    assert (below.kind, below.batch, below.first, below.low) == ("from", 1.0, 1, None)
    assert below.high == pytest.approx(crossing_of(0.09 * math.exp(0.5)), rel=1e-6)
    assert "from batch 2 on; below that" in below.sentence


def test_what_is_open_above_or_not_at_all_bounded_is_not_resolved():
    above = found(make_curve(lambda _: 20.0, BATCHES, -0.5, 0.5))
    assert above.kind == "not resolved"
    assert above.low == pytest.approx(crossing_of(20.0 * math.exp(-0.5)), rel=1e-6)
    assert (above.batch, above.high) == (None, None)
    assert f" up to batch {math.floor(above.low)};" in above.sentence
    neither = found(make_curve(cpu_ms, BATCHES, -0.2, 0.2))
    assert neither.kind == "not resolved"
    assert "at any batch" in neither.sentence
    assert "0.82 to 1.2" in neither.sentence
    one = found(make_curve(lambda _: 0.01, BATCHES, -math.inf, math.inf))
    assert one.kind == "not resolved"


def test_a_card_that_falls_behind_again_or_a_lead_that_fades_is_no_crossover():
    one = found(make_curve(lambda b: 0.03 * b**1.2 if b > 8 else 0.03, BATCHES, -0.05, 0.05))
    assert one.kind == "not resolved"
    assert "with rising batch clearly faster: Card 1, then the CPU's best (1 thread)" in one.sentence
    fades = found(make_curve(lambda b: 0.01 * b, BATCHES, -1.0, 1.0))
    assert (fades.kind, fades.batch) == ("not resolved", None)
    assert re.search(
        r"Card 1 is clearly faster .95 %. from batch 1 to 6\d\d; elsewhere it is not clear", fades.sentence
    )
    grows = found(make_curve(lambda b: 0.2 * b, BATCHES, -1.0, 1.0))
    assert "best (1 thread) is clearly faster (95 %) from batch 5 to 1,024; elsewhere it is not clear" in grows.sentence


def test_withheld_points_are_neither_bridged_nor_passed_over_in_silence():
    some = found(make_curve(lambda _: 1.0, BATCHES, -0.1, 0.1, withheld=(256, 512, 1024)))
    assert (some.kind, some.last) == ("from", 128)
    assert "Beyond that range" in some.sentence
    gap = found(make_curve(lambda _: 1.0, BATCHES, -0.1, 0.1, withheld=(16,)))
    assert (gap.first, gap.last) == (32, 1024)
    assert gap.kind == "gpu ahead throughout"
    nothing = found(make_curve(lambda _: 1.0, BATCHES, withheld=BATCHES))
    assert (nothing.kind, nothing.batch) == ("withheld", None)
    assert "withheld for Card" in nothing.sentence
    assert found(make_curve(lambda _: 1.0, (4096, 8192))).kind == "withheld"


def test_speed_up_at_a_batch_carries_both_errors():
    run = cpu_run(cpu_ms, BATCHES)
    curve = make_curve(lambda _: 1.0, BATCHES, -0.3, 0.2)
    one = speed_up(cells_of(run), curve, 100)
    assert one.ratio == pytest.approx(cpu_ms(100))
    assert (one.low, one.high) == pytest.approx((cpu_ms(100) * math.exp(-0.2), cpu_ms(100) * math.exp(0.3)))
    assert one.label == "modelled"
    assert speed_up(cells_of(run), curve, 4096) is None


@given(st.floats(0.01, 100.0), st.floats(0.1, 3.0), st.booleans())
def test_a_fact_is_found_by_bisection(now: float, factor: float, rises: bool):
    sign = 1.0 if rises else -1.0

    def log_step(value: float) -> float:
        return sign * math.log(value)

    found_value = solve_fact(log_step, sign * math.log(now * factor), now)
    assert found_value == pytest.approx(now * factor, rel=1e-9)
    assert solve_fact(log_step, sign * math.log(now * 1e4), now) is None


@pytest.mark.parametrize("fact", ["launch_us", "bandwidth_gb_s", "link_gb_s"])
def test_what_would_have_to_be_true_makes_both_take_the_same_time(fact: str):
    costs = make_costs(step_us=100.0, op_us=0.5)
    run = cpu_run(lambda b: 0.5 * b**0.5, BATCHES)
    workload, batch = run.plan.workload, 16
    how = Modelling(workload, GPU, costs, Conditions(fed=True))
    curve = card_curve(CARD, how, BATCHES)
    read = what_would_have_to_be_true(run, cells_of(run), 0, CARD, how, curve, batch)
    one = next(each for each in read if each.fact == fact)
    assert one.now == getattr(CARD, fact)
    assert "at batch 16" in one.sentence
    if one.needed is None:
        assert "alone cannot" in one.sentence
        assert fact != "launch_us"
        return
    changed = CARD.model_copy(update={fact: one.needed})
    step_ms = predict(changed, workload, GPU, batch, costs.host, constants(), Conditions(fed=True)).step_ms
    assert step_ms == pytest.approx(2.0, rel=1e-6)
    if one.low is not None:
        assert one.low <= one.needed <= one.high
        assert f"{one.low:.3g} to {one.high:.3g}" in one.sentence


def test_resident_data_have_no_link_to_improve_and_far_batches_no_reading():
    costs = make_costs()
    run = cpu_run(cpu_ms, BATCHES)
    how = Modelling(run.plan.workload, GPU, costs)
    arguments = (run, cells_of(run), 0, CARD, how, card_curve(CARD, how, BATCHES))
    assert [one.fact for one in what_would_have_to_be_true(*arguments, 16)] == ["launch_us", "bandwidth_gb_s"]
    assert what_would_have_to_be_true(*arguments, 4096) == ()
