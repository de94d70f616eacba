"""Published curves: the content of the file, sentences about the model, and the conversion of a sweep to a run."""

import math
import re

import pytest
from pydantic import ValidationError

from core.figures.style import on_dark
from core.hardware.catalogue import catalogue
from core.hardware.curve import CardCurve
from core.hardware.figures import published_figure
from core.hardware.interval import Modelled
from core.hardware.published import (
    RUN_PREFIX,
    Agreement,
    Published,
    agreement,
    gallery,
    host_costs,
    modelled_curve,
    published_run,
)
from core.rounds.answer.analyse import analyse
from core.rounds.show.figures import speed_up_figure, step_time_figure
from simulated.hosts import make_curve
from tests.support.figures import trace, words

MADE_UP = Published.model_validate(
    {
        "id": "made-up", "title": "A made-up sweep", "source": "somebody/benchmarks@abc1234:README.md",
        "licence": "MIT", "fitted": False, "caveats": ["Printed to whole milliseconds."],
        "workload": {"network": "784-128-10"}, "target": "gpu:0,execution=graph", "framework": "Keras 2",
        "build": "fused", "host": "desktop", "cpu": "A processor", "gpu": "T4",
        "cpu_points": [[8, 1.0], [16, 2.0], [32, 4.0]], "gpu_points": [[8, 2.0], [16, 2.0], [32, 2.0], [64, 4.0]],
    }
)  # fmt: skip


def modelled_as(*step_ms: float, factor: float = 1.5) -> CardCurve:
    """Step times at the made-up batches, with bounds that factor below and above; NaN: withheld."""
    batches = [batch for batch, _ in MADE_UP.gpu_points]
    by_batch = dict(zip(batches, step_ms, strict=True))
    withheld = tuple(batch for batch, ms in by_batch.items() if math.isnan(ms))
    half = math.log(factor)
    return make_curve(lambda batch: by_batch[int(batch)], batches, -half, half, withheld=withheld)


def test_the_file_has_sources_caveats_known_cards_and_workloads_that_can_be_counted() -> None:
    entries = gallery()
    assert len({entry.id for entry in entries}) == len(entries)
    assert sum(entry.is_sweep for entry in entries) >= 6
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{7,40}:\S+( and \S+)?", entry.source), entry.source
        assert entry.licence
        assert entry.caveats
        assert entry.gpu in catalogue()
        assert entry.workload.flops_per_sample > 0
        assert entry.target.is_gpu


@pytest.mark.parametrize("entry", gallery(), ids=lambda entry: entry.id)
def test_each_entry_has_a_modelled_curve_at_its_batches(entry: Published) -> None:
    curve = modelled_curve(entry)
    known = {point.batch: point for point in curve.known}
    assert {batch for batch, _ in entry.gpu_points} <= set(known)
    assert all(0 < point.low_ms < point.step_ms < point.high_ms for point in known.values())  # type: ignore[operator]
    assert len(known) > 1, "one point is no curve"
    found = agreement((entry, curve))
    assert found.points == len(entry.gpu_points)
    assert found.error is not None


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"caveats": []}, "caveats"),
        ({"gpu_points": []}, "gpu_points"),
        ({"gpu_points": [[8, 0.0]]}, "gpu_points"),
        ({"gpu_points": [[16, 1.0], [8, 1.0]]}, "batches must rise"),
        ({"cpu": None}, "go together"),
        ({"source": ""}, "source"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(change: dict[str, object], refused: str) -> None:
    with pytest.raises(ValidationError, match=refused):
        Published.model_validate(MADE_UP.model_dump() | change)


def test_coverage_and_error_are_counted_from_the_points() -> None:
    # published 2, 2, 2, 4: off by 0, +10 %, −20 % and −75 %, with bounds a factor of 1.5 about the model
    found = agreement((MADE_UP, modelled_as(2.0, 2.2, 1.6, 1.0)))
    assert (found.points, found.inside, found.longer, found.withheld) == (4, 3, 1, 0)
    assert found.error == pytest.approx(0.15)
    assert found.sentence == (
        "3 of 4 published GPU times inside the modelled 95 % interval; median error of the model 15 %, mostly too "
        "short."
    )
    both = agreement((MADE_UP, modelled_as(2.0, 2.2, 1.6, 1.0)), (MADE_UP, modelled_as(6.0, 6.0, 6.0, 12.0)))
    assert (both.points, both.inside, both.longer) == (8, 3, 5)


def test_what_gets_no_number_is_said() -> None:
    nan = math.nan
    partly = agreement((MADE_UP, modelled_as(3.0, 3.0, 3.0, nan)))
    assert (partly.points, partly.withheld) == (3, 1)
    assert "always too long" in partly.sentence
    assert "gives no number" in agreement((MADE_UP, modelled_as(nan, nan, nan, nan))).sentence


@pytest.mark.parametrize(
    ("points", "longer", "lean"),
    [(4, 4, "always too long"), (4, 0, "always too short"), (4, 3, "mostly too long"), (4, 1, "mostly too short"),
     (4, 2, "too long as often as too short"), (1, 1, " too long"), (1, 0, " too short")],
)  # fmt: skip
def test_the_side_to_which_the_model_errs_is_said(points: int, longer: int, lean: str) -> None:
    assert lean in Agreement(points, points, 0.1, longer).sentence
    assert "always" not in Agreement(1, 1, 0.1, longer and 1).sentence


def test_where_kernels_alone_were_timed_the_host_costs_nothing() -> None:
    alone = host_costs(MADE_UP.model_copy(update={"host": None}))
    assert alone.host.step_us == alone.host.per_op_us == 0
    assert host_costs(MADE_UP).host.step_us > 0


def test_a_sweep_becomes_a_run_of_its_own_label_with_nothing_measured() -> None:
    entry = next(one for one in gallery() if one.is_sweep)
    run = published_run(RUN_PREFIX + entry.id)
    assert run is not None
    assert run.label == "published"
    assert run.plan is None
    assert entry.source in run.warnings[0].text
    answer = analyse(run)
    got = {(cell.target, cell.batch): cell.step_ms for cell in answer.cells}
    published = {(0, b): ms for b, ms in entry.cpu_points} | {(1, b): ms for b, ms in entry.gpu_points}
    assert got == pytest.approx(published)
    assert all(cell.low_ms is None for cell in answer.cells), "one value has no interval"
    for figure in (step_time_figure(run, answer), speed_up_figure(run, answer)):
        assert "published" in words(figure)
        assert entry.repository in words(figure)
        assert all("(published)" in one.name for one in figure.data if "markers" in one.mode and one.name)


def test_only_sweeps_of_both_open_as_runs() -> None:
    alone = [entry for entry in gallery() if not entry.is_sweep]
    assert alone
    assert all(published_run(RUN_PREFIX + entry.id) is None for entry in alone)
    assert published_run("made-up") is None


def test_the_picture_tells_published_from_modelled() -> None:
    curve = modelled_curve(MADE_UP)
    figure = published_figure(MADE_UP, curve, host_costs(MADE_UP))
    assert "modelled GPU" in words(figure)
    assert MADE_UP.source in words(figure)
    assert agreement((MADE_UP, curve)).sentence.split(";")[0] in words(figure)
    for name in ("A processor (published)", "T4 (published)"):
        drawn = trace(figure, name)
        assert drawn.marker.symbol.endswith("-dot")
        assert drawn.line.dash == "solid"
    model = trace(figure, "T4 (modelled)")
    assert model.marker.symbol.endswith("-open")
    assert model.line.dash == "dash"
    bands = [one.name for one in figure.data if one.fill]
    assert [name.split(",")[0] for name in bands] == ["T4 (modelled)"]
    assert list(trace(figure, "T4 (published)").y) == [ms for _, ms in MADE_UP.gpu_points]
    assert {one.name for one in on_dark(figure).data} == {one.name for one in figure.data}


def test_a_picture_without_a_cpu_or_without_a_model_is_drawn() -> None:
    no_cpu = MADE_UP.model_copy(update={"cpu": None, "cpu_points": ()})
    curve = modelled_curve(no_cpu)
    assert "modelled GPU" in words(published_figure(no_cpu, curve, host_costs(no_cpu)))
    assert all(isinstance(point, Modelled) for point in curve.known)
    nan = math.nan
    figure = published_figure(MADE_UP, modelled_as(nan, nan, nan, nan), host_costs(MADE_UP))
    assert "no number for" in words(figure)
