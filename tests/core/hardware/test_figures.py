"""The charts of the Hardware page: nothing modelled without dash, hollow marker and the word; values at their
places.
"""

import dataclasses
import math
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.figures.style import on_dark
from core.hardware.compare import CardReading, compare, roof_of, roofline
from core.hardware.crossing import ClearSpan, ModelledCrossover, cross
from core.hardware.curve import CardCurve, RecordedStep, card_curve
from core.hardware.figures import (
    MAX_CARDS,
    against_figure,
    clear_figure,
    clear_words,
    crossover_words,
    limits_figure,
    roofline_figure,
)
from core.hardware.host import Conditions, Modelling
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.workload.spec import Target
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve
from tests.support.figures import trace, words

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
GPU = Target(device="gpu:0")
COSTS = make_costs(spread=1.2)
RUN = cpu_run(lambda batch: 0.2 + 0.05 * batch, BATCHES)
ANSWER: Answer = cells_of(RUN)
CPU = RUN.names[0]
WORKLOAD = RUN.plan.workload
REALLY_TAKEN = ("(measured)", "(recorded)", "(facts of the card)")


def reading(curve: CardCurve, run: Run = RUN, answer: Answer = ANSWER) -> CardReading:
    spec = CARD.model_copy(update={"name": curve.gpu, "title": curve.gpu})
    crossover = cross(run, answer, curve)
    return CardReading(spec, curve, crossover, None, None, None, (), "" if curve.known else "withheld")


def card(name: str = "Card 1", ms: float = 1.0, **options: Any) -> CardReading:
    return reading(make_curve(lambda _: ms, BATCHES, -0.2, 0.2, gpu=name, **options))


def recorded_card(batches: tuple[int, ...] = (8, 16)) -> CardReading:
    made = make_curve(lambda _: 1.0, BATCHES, -0.2, 0.2, withheld=(128,))
    points = tuple(
        RecordedStep(CARD.name, p.batch, 1.5, 1.4, 1.6, "launch", "recorded: a run", "recorded")
        if p.batch in batches else p
        for p in made.points
    )  # fmt: skip
    return reading(CardCurve(CARD.name, points, "recorded on Card 1: a run (r1)"))


def unmarked(figure: go.Figure) -> list[str]:
    """Return violations: a trace of anything not measured must be named modelled, and dashed and hollow or hatched."""
    broken = [] if "modelled" in words(figure) else ["no word in the picture"]
    for one in figure.data:
        if any(label in one.name for label in REALLY_TAKEN):
            continue
        if "modelled" not in one.name:
            broken.append(f"{one.name}: not named")
        if one.type == "bar":
            broken += [] if one.marker.pattern.shape else [f"{one.name}: not hatched"]
            continue
        if one.name.endswith("95 % interval"):  # a band: pale, or its dotted bounds
            continue
        if "lines" in one.mode and one.line.width != 0 and one.line.dash != "dash":
            broken.append(f"{one.name}: not dashed")
        if "markers" in one.mode:
            symbols = [one.marker.symbol] if isinstance(one.marker.symbol, str) else list(one.marker.symbol)
            broken += [f"{one.name}: filled" for symbol in symbols if not symbol.endswith("-open")]
        if one.fillpattern.shape is None and one.fill == "tonexty":
            broken.append(f"{one.name}: filled area")
    return broken


def all_figures() -> dict[str, go.Figure]:
    curve = card_curve(CARD, Modelling(WORKLOAD, GPU, COSTS, Conditions(fed=True)), BATCHES)
    found = [card("A", 1.0), card("B", 40.0), recorded_card(), card("D", withheld=BATCHES)]
    points = roofline(CARD, Modelling(WORKLOAD, GPU, COSTS), curve)
    return {
        "against": against_figure(RUN, ANSWER, 0, found, COSTS),
        "clear": clear_figure(RUN, ANSWER, 0, found),
        "limits": limits_figure(RUN, CARD, curve, COSTS),
        "roofline": roofline_figure(CARD, roof_of(CARD, Modelling(WORKLOAD, GPU, COSTS)), "a network", points),
    }


@pytest.mark.parametrize("name", ["against", "clear", "limits", "roofline"])
def test_nothing_modelled_is_drawn_without_dash_open_marker_and_the_word(name: str) -> None:
    figure = all_figures()[name]
    assert figure.data
    assert unmarked(figure) == []
    assert unmarked(on_dark(figure)) == []
    (title,) = [note.text for note in figure.layout.annotations if note.text.startswith("<b>")]
    assert "modelled" in title


def test_the_rule_itself_finds_what_breaks_it() -> None:
    figure = all_figures()["against"]
    name = "A (modelled)"
    for change in ({"line": {"dash": "solid"}}, {"marker": {"symbol": "circle"}}, {"name": "A"}):
        broken = go.Figure(figure)
        trace(broken, name).update(change)
        assert len(unmarked(broken)) == 1, change


def test_what_was_measured_is_solid_filled_and_has_its_values() -> None:
    figure = against_figure(RUN, ANSWER, 0, [card()], COSTS)
    cpu = trace(figure, f"{CPU} ({RUN.label})")
    assert cpu.line.dash == "solid"
    assert not cpu.marker.symbol.endswith("-open")
    assert list(cpu.x) == list(BATCHES)
    assert list(cpu.y) == [cell.step_ms for cell in ANSWER.cells if cell.target == 0]
    text = words(figure)
    assert "<i>modelled</i>" in text
    assert f"<i>{RUN.label}</i>" in text
    assert "nothing ran" in text
    assert "300 µs" in text


def test_modelled_values_stand_in_modelled_traces_and_recorded_ones_in_their_own() -> None:
    figure = against_figure(RUN, ANSWER, 0, [recorded_card()], COSTS)
    modelled, recorded = trace(figure, "Card 1 (modelled)"), trace(figure, "Card 1 (recorded)")
    assert [x for x in modelled.x if x is not None] == [1, 2, 4, 32, 64]
    assert None in modelled.x  # no line of the modelled curve passes through what was recorded
    assert list(recorded.x) == [8, 16]
    assert list(recorded.y) == [1.5, 1.5]
    assert recorded.line.dash == "solid"
    assert not recorded.marker.symbol.endswith("-open")
    joints = trace(figure, "Card 1 (modelled), to recorded points")
    assert [tuple(joints.x[i : i + 2]) for i in (0, 3)] == [(4, 8), (16, 32)]
    assert "(r1)." in words(figure)


def test_a_band_ends_where_numbers_are_withheld_and_a_withheld_card_is_named_with_the_reason() -> None:
    figure = against_figure(RUN, ANSWER, 0, [card("A", withheld=(8,)), card("D", withheld=BATCHES)], COSTS)
    band = trace(figure, "A (modelled), 95 % interval")
    assert 8 not in band.x
    assert None in band.x
    assert not [one for one in figure.data if one.name.startswith("D ")]
    assert "Withheld for D" in words(figure)


def test_only_six_cards_are_drawn_each_with_a_look_of_its_own() -> None:
    found = [card(f"Card {i}", 1.0 + i) for i in range(MAX_CARDS + 2)]
    figure = against_figure(RUN, ANSWER, 0, found, COSTS)
    drawn = [one for one in figure.data if one.name.endswith("(modelled)")]
    assert len(drawn) == MAX_CARDS
    assert len({one.marker.symbol for one in drawn}) == len({one.line.color for one in drawn}) == MAX_CARDS


@settings(max_examples=25)
@given(ms=st.lists(st.floats(0.01, 1e4), min_size=1, max_size=3), error=st.floats(0.0, 6.0))
def test_every_curve_lies_inside_the_axes_and_a_wide_band_does_not_flatten_it(ms: list[float], error: float) -> None:
    found = [
        reading(make_curve(lambda _, v=v: v, BATCHES, -error, error, gpu=f"Card {i}"))  # type: ignore[misc]
        for i, v in enumerate(ms)
    ]
    figure = against_figure(RUN, ANSWER, 0, found, COSTS)
    low, high = (10**end for end in figure.layout.yaxis.range)
    middles = [*ms, *(cell.step_ms for cell in ANSWER.cells if cell.target == 0)]
    assert low <= min(middles)
    assert high >= max(middles)
    assert high / low <= 3.2**2 * (max(middles) / min(middles)) * 1.6 ** (1 + len(ms)) * (max(middles) / min(middles))


def strips(figure: go.Figure, words_of: str) -> list[tuple[int, float, float]]:
    """Return row, first and last batch of every strip of that state."""
    (bars,) = [one for one in figure.data if one.type == "bar" and one.name.startswith(words_of)]
    found = zip(bars.y, bars.base, bars.x, strict=True)
    return [(row, low, low + width) for row, low, width in found if row is not None]


def test_each_card_has_a_strip_without_a_gap_that_claims_only_what_is_clear() -> None:
    found = [card("A", 1.0), card("B", 0.1), card("C", 100.0), card("D", withheld=BATCHES)]
    assert [one.crossover.kind for one in found] == [
        "from", "gpu ahead throughout", "cpu ahead throughout", "withheld",
    ]  # fmt: skip
    figure = clear_figure(RUN, ANSWER, 0, found)
    faster, slower, unclear = (strips(figure, of) for of in ("card clearly faster", f"{CPU} clearly", "not clear"))
    first = found[0].crossover.clear[0].last
    start = found[0].crossover.clearly_from
    assert start is not None
    assert sorted(faster) == [(0, start, 128), (1, 1, 128)]
    assert sorted(slower) == [(0, 1, first), (2, 1, 128)]
    assert unclear == [(0, first, start)]
    low, high = found[0].crossover.low, found[0].crossover.high
    assert low is not None
    assert high is not None
    assert (math.floor(low), math.ceil(high)) == (first, start)
    estimate = next(one for one in figure.data if one.name.startswith("crossover"))
    assert list(estimate.x) == [math.ceil(found[0].crossover.batch or 0)]
    text = words(figure)
    assert f"A: clearly slower up to batch {first}" not in text
    assert f"A: clearly faster from batch {start}" in text
    assert "B: clearly faster at every batch" in text
    assert "C: clearly slower at every batch" in text
    assert "D: no number" in text


@pytest.mark.parametrize(("spans", "expected"), [
    ((), "not clear at any batch"),
    ((("cpu", 1, 8),), "clearly slower up to batch 8, else not clear"),
    ((("gpu", 4, 8),), "clearly faster from batch 4 to 8, else not clear"),
    ((("gpu", 1, 8), ("cpu", 64, 1024)), "clearly faster up to batch 8, clearly slower from batch 64"),
    ((("cpu", 1, 1024),), "clearly slower at every batch"),
    ((("cpu", 1, 8), ("gpu", 64, 1024)), "clearly faster from batch 64"),
])  # fmt: skip
def test_what_is_clear_in_words(spans: Any, expected: str) -> None:
    clear = tuple(ClearSpan(*span) for span in spans)
    made = ModelledCrossover("not resolved", "A", "cpu", None, None, None, 1, 1024, "Modelled: …", clear=clear)
    assert clear_words(made) == expected


def test_bands_of_several_cards_are_outlines_that_cannot_merge() -> None:
    alone = against_figure(RUN, ANSWER, 0, [card("A")], COSTS)
    assert not trace(alone, "A (modelled), 95 % interval").fillcolor.endswith(",0)")
    several = against_figure(RUN, ANSWER, 0, [card("A"), card("B", 2.0)], COSTS)
    for name in ("A", "B"):
        band = trace(several, f"{name} (modelled), 95 % interval")
        assert band.fillcolor.endswith(",0)")
        assert (band.line.width, band.line.dash) == (1, "dot")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "41 (19 to 90)"),
        ({"batch": 2.24, "low": None}, "3 (1 or less to 90)"),
        ({"batch": 2.6, "low": 1.2, "high": 118.3}, "3 (2 to 119)"),
        ({"batch": 1.0, "low": None, "high": 9.0}, "1 or less (at most 9)"),
        ({"kind": "gpu ahead throughout", "batch": None}, "clearly faster throughout"),
        ({"kind": "cpu ahead throughout", "batch": None}, "CPU clearly faster throughout"),
        ({"kind": "not resolved", "batch": None, "high": None}, "not clear; not before 19 (95 %)"),
        ({"kind": "not resolved", "batch": None, "low": None, "high": None}, "not clear"),
        ({"kind": "withheld", "batch": None}, "withheld"),
    ],
)
def test_crossovers_in_words(change: dict[str, Any], expected: str) -> None:
    made = ModelledCrossover("from", "A", "cpu", 41.0, 19.0, 90.0, 1, 1024, "Modelled: …")
    assert crossover_words(dataclasses.replace(made, **change)) == expected


def test_shares_of_the_parts_add_up_to_all_of_them() -> None:
    curve = card_curve(CARD, Modelling(WORKLOAD, GPU, COSTS, Conditions(fed=True)), BATCHES)
    figure = limits_figure(RUN, CARD, curve, COSTS)
    assert len(figure.data) == 5
    for column in zip(*(one.y for one in figure.data), strict=True):
        assert sum(column) == pytest.approx(100.0)
    resident = limits_figure(RUN, CARD, card_curve(CARD, Modelling(WORKLOAD, GPU, COSTS), BATCHES), COSTS)
    assert not [one for one in resident.data if one.name.startswith("transfer")]
    point = curve.known[3]
    host = next(one for one in figure.data if one.name.startswith("host"))
    parts = point.parts  # type: ignore[union-attr]
    total = parts.host_ms + parts.launch_ms + parts.arithmetic_ms + parts.bandwidth_ms + parts.transfer_ms
    assert host.y[3] == pytest.approx(100 * parts.host_ms / total)


def test_no_step_passes_the_roof() -> None:
    (one,) = compare(RUN, ANSWER, 0, (CARD,), Modelling(RUN.plan.workload, GPU, COSTS), 64)
    peak = roof_of(CARD, Modelling(WORKLOAD, GPU, COSTS))
    figure = roofline_figure(CARD, peak, "a network", roofline(CARD, Modelling(WORKLOAD, GPU, COSTS), one.curve))
    roof = next(t for t in figure.data if "facts of the card" in t.name)
    assert max(roof.y) == peak
    steps = trace(figure, "steps on Card 1 (modelled)")
    for intensity, rate in zip(steps.x, steps.y, strict=True):
        assert rate <= min(peak, intensity * CARD.bandwidth_gb_s * 1e-3) * (1 + 1e-9)
    assert all(up >= 0 and down >= 0 for up, down in zip(steps.error_y.array, steps.error_y.arrayminus, strict=True))
    text = words(figure)
    assert "batch 1" in text
    assert f"batch {one.curve.known[-1].batch}" in text
