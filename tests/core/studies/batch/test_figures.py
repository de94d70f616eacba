"""The charts of the Batch page: labels inside, best batches where the truth is, walls at the limits, dots at peaks."""

import math
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rounds.answer.analyse import analyse
from core.studies.batch.answer import batch_answer
from core.studies.batch.figures import (
    cost_figure,
    known_time,
    memory_walls,
    sample_time_figure,
    throughput_figure,
    time_to_loss_figure,
)
from core.studies.batch.shapes import BatchAnswer, MemoryLimit, Price
from core.studies.memory.answer import LargestBatch, memory_answer, predict_memory
from core.studies.memory.figures import LIMIT_COLOUR, memory_figure, parts_figure
from core.studies.memory.record import MemoryPlan
from core.studies.noise.answer import training_noise
from core.studies.noise.figures import loss_figure, noise_scale_figure
from core.studies.noise.record import NoiseStudy
from core.workload.spec import MAX_BATCH
from simulated.memories import GB, linear, make_memory_study, make_probe
from simulated.noises import TARGET_LOSS, TRUE_NOISE, TRUE_STEPS, exact_noise_study, make_noise_study
from simulated.runs import make_environment, make_run, true_crossover, true_step_ms
from tests.support.figures import trace, upright, words

RUN = make_run(5, noise=0.002)
ANSWER = analyse(RUN)
NOISE = exact_noise_study(RUN, TRUE_NOISE)
NAMES = RUN.names
FLOORS, SLOPES = (0.3, 0.8), (0.02, 0.01)
WORKLOAD, TARGETS = RUN.plan.workload, RUN.plan.targets


def told(noise: NoiseStudy | None = NOISE, **limits: MemoryLimit) -> BatchAnswer:
    named = {RUN.target_names[int(key[1])]: limit for key, limit in limits.items()}
    return batch_answer(RUN, ANSWER, noise, named)


def walls(figure: go.Figure) -> dict[float, str]:
    return {shape.x0: shape.line.color for shape in figure.layout.shapes if shape.name == "memory limit"}


def true_best(target: int) -> int:
    batches = range(1, 1025)
    return min(batches, key=lambda b: (1 + TRUE_NOISE / b) * true_step_ms(FLOORS[target], SLOPES[target], b))


@pytest.mark.parametrize("target", [0, 1])
def test_the_best_batch_is_marked_where_the_true_time_to_the_loss_is_shortest(target: int) -> None:
    figure = time_to_loss_figure(RUN, told(), NOISE)
    star = trace(figure, f"{NAMES[target]}, best batch")
    assert star.marker.symbol == "star"
    assert star.x[0] == pytest.approx(true_best(target), rel=0.25)
    steps = TRUE_STEPS * (1 + TRUE_NOISE / star.x[0]) / (1 + TRUE_NOISE / 64)
    assert star.y[0] == pytest.approx(steps * true_step_ms(FLOORS[target], SLOPES[target], star.x[0]) / 1000, rel=0.05)
    near = trace(figure, f"{NAMES[target]}, within 5 % of the best")
    assert min(near.x) < star.x[0] < max(near.x)
    assert max(near.y) <= 1.05 * star.y[0]
    assert f"best on {NAMES[target]}: {star.x[0]:,}" in words(figure)


def test_what_is_predicted_is_said_hollow_and_dashed_and_both_crossovers_stand_in_one_picture() -> None:
    answer = told()
    figure = time_to_loss_figure(RUN, answer, NOISE)
    text = words(figure)
    for name in NAMES:
        at = trace(figure, f"{name} (predicted)")
        assert at.marker.symbol.endswith("-open")
        assert list(at.x) == [cell.batch for cell in ANSWER.cells if cell.target == NAMES.index(name)]
        assert trace(figure, f"{name} (predicted), between").line.dash == "dash"
    assert "Time to the loss by batch (predicted)" in text
    assert f"To a loss of {TARGET_LOSS:.3g}, on random inputs with the labels of a teacher network." in text
    assert "Gradient noise scale 600 (600 to 600) samples, recorded." in text
    assert "recorded · 2026-01-05 · Example CPU" in text
    assert "Steps: recorded · 2026-01-07 · Example CPU" in text
    found = next(c for c in answer.loss_crossovers if c.batch is not None)
    lines = [shape.x0 for shape in upright(figure)]
    truth = true_crossover(FLOORS, SLOPES)
    assert truth is not None
    assert any(x == pytest.approx(truth, rel=0.1) for x in lines)
    assert found.batch in lines
    assert "step-time crossover" in text
    assert f"time-to-loss crossover of {answer.target(found.target).title}: {found.batch:.0f}" in text


def test_without_the_loss_only_ratios_to_the_best_are_drawn_and_nothing_is_compared() -> None:
    noise = make_noise_study(RUN, reached=False)
    answer = told(noise)
    assert known_time(answer) == "relative"
    figure = time_to_loss_figure(RUN, answer, noise)
    assert "target's best" in figure.layout.yaxis.title.text
    assert all(text.endswith("×") for text in figure.layout.yaxis.ticktext)
    assert "was not reached" in words(figure)
    assert "crossover" not in words(figure)
    for name in NAMES:
        assert min(trace(figure, f"{name} (predicted), between").y) == 1.0


def test_the_memory_wall_stands_at_the_limit_and_the_curve_is_dotted_beyond() -> None:
    figure = time_to_loss_figure(RUN, told(t0=MemoryLimit(100, 100, 104, "measured")), NOISE)
    assert list(walls(figure)) == [100]
    assert f"memory limit of {NAMES[0]}: 100 " in words(figure)
    assert "100 to 104" in words(figure)
    shaded = [s for s in figure.layout.shapes if s.type == "rect" and s.x0 == 100]
    assert shaded
    assert shaded[0].x1 > 1024
    assert max(trace(figure, f"{NAMES[0]} (predicted), between").x) <= 100
    beyond = trace(figure, f"{NAMES[0]} (predicted), does not fit")
    assert beyond.line.dash == "dot"
    assert max(beyond.x) == 1024
    assert not [one for one in figure.data if (one.name or "").startswith(NAMES[1]) and one.name.endswith("not fit")]


def test_equal_limits_are_one_wall_and_limits_out_of_sight_are_sentences() -> None:
    same = MemoryLimit(300, 200, 400)
    figure = throughput_figure(RUN, told(t0=same, t1=same))
    assert list(walls(figure)) == [300]
    assert "both targets: 300" in words(figure)
    figure = throughput_figure(RUN, told(t0=MemoryLimit(MAX_BATCH, MAX_BATCH, MAX_BATCH), t1=MemoryLimit(0, 0, 3)))
    assert not walls(figure)
    text = words(figure)
    assert "none of these" in text
    assert "65,536 or more" in text


@settings(max_examples=60)
@given(st.integers(0, 70_000), st.integers(0, 70_000))
def test_every_limit_is_a_wall_where_it_is_in_sight_and_all_of_one_size_are_one_line(first: int, second: int) -> None:
    targets = told(None, t0=MemoryLimit(first), t1=MemoryLimit(second)).targets
    x = (0.9, 1100.0)
    found, sentences = memory_walls(targets, x)
    assert len(sentences) == 1
    assert sentences[0].count(" on ") == (1 if first == second else 2)
    assert all(x[0] <= wall.batch < x[1] for wall in found)
    assert {wall.batch for wall in found} == {limit for limit in (first, second) if 1 <= limit < 1100}


def test_throughput_and_time_per_sample_are_each_others_inverse_and_labelled() -> None:
    answer = told(None)
    assert known_time(answer) is None
    rates, times = throughput_figure(RUN, answer), sample_time_figure(RUN, answer)
    for name in NAMES:
        for rate, us in zip(trace(rates, name).y, trace(times, name).y, strict=True):
            assert rate * us == pytest.approx(1e6)
        assert not trace(rates, name).marker.symbol.endswith("-open")
    for figure in (rates, times):
        assert "Markers: recorded;" in words(figure)
        assert "recorded · 2026-01-05" in words(figure)
    best = answer.targets[1].best_throughput
    assert f"best on {NAMES[1]}: {best.batch:,}" in words(rates)
    assert "step-time crossover" in words(times)


def test_cost_is_the_price_times_the_time_and_its_crossover_is_marked() -> None:
    prices = [
        Price(target=name, per_hour=hour, dated="2026-11-01")
        for name, hour in zip(RUN.target_names, (0.2, 0.3), strict=True)
    ]
    answer = batch_answer(RUN, ANSWER, None, None, prices)
    figure = cost_figure(RUN, answer)
    (found,) = answer.costs[0].crossovers
    squared = (0.3**2 * 0.8**2 - 0.2**2 * 0.3**2) / (0.2**2 * 0.02**2 - 0.3**2 * 0.01**2)
    assert found.batch == pytest.approx(math.sqrt(squared), rel=0.1)
    assert found.batch in [shape.x0 for shape in figure.layout.shapes if shape.type == "line"]
    text = words(figure)
    assert f"{NAMES[1]} cheaper from {found.batch:.0f}" in text
    assert "0.2 USD" in text
    assert "(USD)" in figure.layout.yaxis.title.text
    at_one = trace(figure, NAMES[0]).y[0]
    assert at_one == pytest.approx(1e6 * true_step_ms(0.3, 0.02, 1) / 1000 * 0.2 / 3600, rel=0.03)


def test_the_noise_scale_is_drawn_at_its_steps_with_its_average_also_without_an_upper_bound() -> None:
    noise = training_noise(NOISE)
    figure = noise_scale_figure(NOISE, noise)
    points = figure.data[0]
    assert list(points.y) == pytest.approx([TRUE_NOISE] * len(points.y))
    assert list(points.x) == [max(1.0, scale.step) for scale in noise.scales]
    assert any(shape.y0 == pytest.approx(TRUE_NOISE) == shape.y1 for shape in figure.layout.shapes)
    assert "noise scale (recorded)" in words(figure)
    assert "recorded · 2026-01-07" in words(figure)
    open_ended = tuple(replace(scale, high=None) for scale in noise.scales)
    figure = noise_scale_figure(NOISE, replace(noise, scales=open_ended, high=None))
    assert set(figure.data[0].error_y.array) == {0.0}


def test_the_loss_is_drawn_with_what_was_to_reach_and_when_it_was() -> None:
    figure = loss_figure(NOISE)
    assert list(figure.data[0].y) == [point.loss for point in NOISE.losses]
    assert any(shape.y0 == TARGET_LOSS for shape in figure.layout.shapes)
    assert f"loss 1.2 after {TRUE_STEPS:,.0f} steps" in words(figure)
    assert "was not reached" in words(loss_figure(make_noise_study(RUN, reached=False)))


def study(limit_bytes: int = 2 * GB, **changes: Any) -> Any:
    made = make_memory_study(linear(100e6, 1e6), (64, 1024, 1400), limit_bytes=limit_bytes, workload=WORKLOAD)
    return made.model_copy(
        update={"plan": MemoryPlan(workload=WORKLOAD, target=TARGETS[0], limit_bytes=limit_bytes), **changes}
    )


def test_probes_stand_at_their_peaks_on_the_limit_or_apart_where_nothing_was_settled() -> None:
    found = study()
    answer = memory_answer(found)
    figure = memory_figure(WORKLOAD, 0, answer.prediction, answer, found)
    fitted, out = trace(figure, "fitted (measured)"), trace(figure, "ran out (measured)")
    assert list(fitted.x) == [64, 1024]
    assert list(fitted.y) == [probe.peak_bytes / GB for probe in found.probes[:2]]
    assert list(out.x) == [1400]
    assert list(out.y) == [2.0]
    assert (fitted.marker.symbol, out.marker.symbol) == ("circle", "x")
    assert "1,024 fitted, 1,400" in words(figure)
    level = [s for s in figure.layout.shapes if s.type == "line" and s.line.color == LIMIT_COLOUR]
    assert [(s.y0, s.y1) for s in level] == [(2.0, 2.0)]
    line = trace(figure, "peak (predicted)")
    assert line.line.dash == "dash"
    shown = dict(zip(line.x, line.y, strict=True))
    assert shown == {p.batch: p.peak_bytes / GB for p in answer.curve if p.batch in shown}  # refined by the peaks
    assert shown != {p.batch: p.peak_bytes / GB for p in answer.prediction.curve if p.batch in shown}
    assert "measured · 2026-01-05" in words(figure)
    hung = make_probe(512, None, outcome="hung", reason="No answer within 30 s.")
    found = study(probes=(hung,))
    answer = memory_answer(found)
    figure = memory_figure(WORKLOAD, 0, answer.prediction, answer, found)
    assert list(trace(figure, "not settled").x) == [512]
    assert not [one for one in figure.data if one.name in ("fitted (measured)", "ran out (measured)")]


def test_before_anything_was_tried_the_picture_is_all_prediction() -> None:
    prediction = predict_memory(WORKLOAD, TARGETS[1], 720_000_000, (), make_environment())
    figure = memory_figure(WORKLOAD, 1, prediction, None, RUN)
    text = words(figure)
    assert "the model alone" in text
    assert not [one for one in figure.data if "measured" in (one.name or "")]
    largest: LargestBatch = prediction.largest
    if largest.batch:
        assert f"predicted to fit: {largest.batch:,}" in text


def test_parts_sum_to_the_whole_are_labelled_predicted_and_left_out_where_there_are_none() -> None:
    answer = memory_answer(study())
    parts = answer.named_parts
    assert parts["framework"] == answer.context_bytes
    assert sum(parts.values()) == answer.context_bytes + answer.parts.total_bytes
    figure = parts_figure(WORKLOAD, 0, answer.prediction, answer, study())
    assert list(figure.data[0].y) == list(parts)
    assert sum(figure.data[0].x) == pytest.approx(sum(parts.values()) / 1e6)
    assert "at batch 1,024" in words(figure)
    infers = WORKLOAD.model_copy(update={"mode": "infer"})
    prediction = predict_memory(infers, TARGETS[0], GB)
    assert not {"gradients", "optimizer"} & prediction.named_parts.keys()
