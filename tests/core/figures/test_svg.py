"""Static pictures hold what the figure holds, at its places, for every figure of the program; nothing in them acts."""

import base64
import math
import re
import struct
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image, ImageFont

import core.figures
from core.figures.png import png
from core.figures.style import DARK_INK, INK, PAPER
from core.figures.svg import svg
from core.figures.svg_parts import hover, on_scale, png_of, symbol
from core.rounds.answer.analyse import analyse
from core.rounds.answer.energy import energy_of
from core.rounds.show.card_figures import energy_figure
from core.rounds.show.figures import speed_up_figure, step_time_figure
from core.rounds.show.overhead_figure import overhead_figure
from core.rounds.show.trace_figures import timeline_figure, trace_share_figure
from core.studies.diagnosis.answer import diagnose
from core.studies.diagnosis.figures import diagnosis_figure
from core.studies.frontier.answer import frontier_answer, slice_of
from core.studies.frontier.figures import frontier_figure
from core.studies.pipeline.answer import pipeline_answer
from core.studies.pipeline.figures import cost_figure, feeding_figure
from core.studies.registry import load_example
from tests.support.energies import with_energy
from tests.support.hostile import HOSTILE
from tests.support.targets import run_of

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLE = load_example("sweep")
ANSWER = analyse(EXAMPLE)
SIX = run_of(6, noise=0.03)


def frontier() -> go.Figure:
    answer = frontier_answer(load_example("frontier"))
    return frontier_figure(answer, slice_of(answer, "depth", answer.cells[0].setting.depth))


def pipeline(draw: Callable[..., go.Figure]) -> go.Figure:
    study = load_example("pipeline")
    return draw(study, pipeline_answer(study))


def diagnosis() -> go.Figure:
    found = load_example("diagnosis")
    return diagnosis_figure(EXAMPLE, found, diagnose(EXAMPLE, found))


FIGURES: dict[str, Callable[[], go.Figure]] = {
    "speed-up": lambda: speed_up_figure(EXAMPLE, ANSWER),
    "speed-up of six": lambda: speed_up_figure(SIX, analyse(SIX)),
    "step time": lambda: step_time_figure(EXAMPLE, ANSWER),
    "step time of one": lambda: step_time_figure(run_of(1), analyse(run_of(1))),
    "step time of six": lambda: step_time_figure(SIX, analyse(SIX)),
    "overhead": lambda: overhead_figure(EXAMPLE, ANSWER),
    "traced": lambda: trace_share_figure(EXAMPLE, 0),
    "timeline": lambda: timeline_figure(EXAMPLE, EXAMPLE.traces[0]),
    "energy": lambda: energy_figure(with_energy(), energy_of(with_energy())),
    "frontier": frontier,
    "feeding": lambda: pipeline(feeding_figure),
    "cost": lambda: pipeline(cost_figure),
    "diagnosis": diagnosis,
}


@cache
def figure_of(name: str) -> go.Figure:
    return FIGURES[name]()


def drawn(figure: go.Figure, **given: Any) -> ElementTree.Element:
    return ElementTree.fromstring(svg(figure, "light", **given))


def texts(root: ElementTree.Element) -> str:
    return " ".join("".join(one.itertext()) for one in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_the_program_keeps_its_words_and_stays_inside_the_picture(name: str) -> None:
    figure = figure_of(name)
    root = drawn(figure)
    said = texts(root)
    for note in figure.layout.annotations:
        for line in note.text.split("<br>"):
            words = re.sub(r"</?[bi]>", "", line).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
            assert words in said
    for trace in figure.data:
        if trace.showlegend is not False and trace.name and trace.type != "heatmap":
            assert trace.name in said
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert height == figure.layout.height
    for text in root.iter(f"{SVG}text"):
        assert -1 <= float(text.get("x", 0)) <= width
        assert 0 <= float(text.get("y", 0)) <= height
    numbers = re.findall(r"nan|inf|None", re.sub(r">[^<]*<", "><", svg(figure, "light")))
    assert numbers == []


def test_points_and_intervals_stand_where_the_axes_say() -> None:
    figure = step_time_figure(EXAMPLE, ANSWER)
    root, layout = drawn(figure, width_px=960), figure.layout
    left, right = layout.margin.l, 960 - layout.margin.r
    top, bottom = layout.margin.t, layout.height - layout.margin.b

    def place(batch: float, ms: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = layout.xaxis.range, layout.yaxis.range
        across = (math.log10(batch) - x0) / (x1 - x0)
        return left + across * (right - left), bottom - (math.log10(ms) - y0) / (y1 - y0) * (bottom - top)

    groups = [g for g in root.iter(f"{SVG}g") if any("title" in child.tag for path in g for child in path)]
    for target, group in enumerate(groups):
        cells = [cell for cell in ANSWER.cells if cell.target == target]
        line = next(path.get("d", "") for path in group if path.get("stroke-width") == "2.4")
        points = [tuple(map(float, pair.split(","))) for pair in line[1:].split("L")]
        assert len(points) == len(cells) > 10
        for point, cell in zip(points, cells, strict=True):
            assert point == pytest.approx(place(cell.batch, cell.step_ms), abs=0.06)
    bands = [path.get("d", "") for path in root.iter(f"{SVG}path") if "rgba" in (path.get("fill") or "")]
    assert len(bands) == len(groups) == 2
    cells = [cell for cell in ANSWER.cells if cell.target == 0]
    upper = [tuple(map(float, pair.split(","))) for pair in bands[0][1:-1].split("L")][: len(cells)]
    for point, cell in zip(upper, cells, strict=True):
        assert cell.high_ms is not None
        assert point == pytest.approx(place(cell.batch, cell.high_ms), abs=0.06)


def test_what_plotly_shows_beside_a_point_is_a_tooltip() -> None:
    titles = [title.text or "" for title in drawn(step_time_figure(EXAMPLE, ANSWER)).iter(f"{SVG}title")]
    assert len(titles) == len(ANSWER.cells) > 20
    assert titles[0].startswith(f"1 thread\nbatch 1\n{ANSWER.cells[0].step_ms:.3g} ms")
    template = "<b>%{x:,}</b> %{customdata[1]:.3g}<extra>no</extra>"
    trace = {"hovertemplate": template, "x": [4096], "customdata": [[1, 2.3456]]}
    assert hover(trace, 0) == "<title>4,096 2.35</title>"


def test_a_stack_is_drawn_at_its_sums() -> None:
    figure = go.Figure(layout={"margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "height": 100, "showlegend": False})
    for values in ([10, 20], [30, 40]):
        figure.add_scatter(x=[0, 1], y=values, stackgroup="parts", line={"width": 1, "color": INK}, mode="lines")
    figure.update_xaxes(range=[0, 1])
    figure.update_yaxes(range=[0, 100])
    lines = [path.get("d") for path in drawn(figure, width_px=100).iter(f"{SVG}path") if path.get("stroke") == INK]
    assert lines == ["M0,90L100,80", "M0,60L100,40"]


def test_light_dark_both_and_the_page_s_own_colours() -> None:
    figure = speed_up_figure(EXAMPLE, ANSWER)
    light, dark, both, page = (svg(figure, paper) for paper in ("light", "dark", "both", "page"))  # type: ignore[arg-type]
    assert (INK in light, PAPER in light, DARK_INK in light) == (True, True, False)
    assert (INK in dark.split(">")[0], DARK_INK in dark.split(">")[0]) == (False, True)
    assert "prefers-color-scheme:dark" in both
    assert "<style" not in light + dark + page
    assert 'class="chart ink"' in page


def test_nothing_in_it_acts_or_asks_and_text_is_text() -> None:
    hostile = EXAMPLE.model_copy(update={"target_names": (HOSTILE, "b"), "plan": None, "name": HOSTILE})
    plain, theirs = (svg(step_time_figure(run, analyse(run)), "light", alt=run.name) for run in (EXAMPLE, hostile))
    tags = {element.tag for element in ElementTree.fromstring(theirs).iter()}
    assert tags <= {element.tag for element in ElementTree.fromstring(plain).iter()} | {f"{SVG}tspan"}
    for text in (theirs, svg(frontier())):
        given = [pair for element in ElementTree.fromstring(text).iter() for pair in element.attrib.items()]
        assert not [name for name, _ in given if name.startswith("on")]
        links = [value for name, value in given if "href" in name]
        assert all(link.startswith("data:image/png;base64,") for link in links)


def test_a_kind_of_trace_that_it_does_not_know_is_refused() -> None:
    figure = go.Figure(layout={"margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "height": 20})
    figure.add_pie(values=[1])
    with pytest.raises(ValueError, match="no pie"):
        svg(figure)


@pytest.mark.parametrize(
    "name",
    ["circle", "square-open", "diamond-dot", "triangle-up", "triangle-left-open", "cross", "star", "x", "x-thin",
     "line-ns-open"],
)  # fmt: skip
def test_a_symbol_has_about_its_size(name: str) -> None:
    look = {"color": INK, "line": {"width": 1, "color": PAPER}}
    path = ElementTree.fromstring(f"<g>{symbol(name, 50, 50, 10, look)}</g>")[0]
    numbers = [float(value) for value in re.findall(r"[ML](-?[\d.]+),", path.get("d", ""))]
    assert all(40 <= value <= 60 for value in numbers)
    assert (path.get("fill") == "none") is (name.endswith("-open") or "thin" in name)


def test_a_map_keeps_its_colours_and_its_way_up() -> None:
    colours = on_scale([[0.0, 1.0], [0.5, 0.5]], [[0, "#000000"], [1, "rgba(255,255,255,0.5)"]], 0.0, 1.0)
    assert colours[0].tolist() == [[0, 0, 0, 1], [255, 255, 255, 0.5]]
    data = base64.b64decode(png_of(np.array([[[1, 2, 3, 255]], [[4, 5, 6, 255]]])).partition(",")[2])
    assert np.asarray(Image.open(BytesIO(data))).tolist() == [[[1, 2, 3, 255]], [[4, 5, 6, 255]]]


def test_a_png_has_twice_the_pixels_and_letters() -> None:
    figure = speed_up_figure(EXAMPLE, ANSWER)
    made = png(svg(figure, "light"))
    assert struct.unpack(">II", made[16:24]) == (1920, 2 * figure.layout.height)
    title = np.asarray(Image.open(BytesIO(made)).convert("L"))[20:60, 20:600]
    assert 0.02 < (title < 100).mean() < 0.4


@pytest.mark.parametrize("font", ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf"])
def test_the_fonts_have_every_sign_that_charts_use(font: str) -> None:
    face = ImageFont.truetype(str(files(core.figures) / "fonts" / font), 40)
    missing = bytes(face.getmask("\uffff"))
    signs = {sign for name in FIGURES for sign in texts(drawn(figure_of(name)))} - {" "}
    signs |= set("×≥≤µ·…▲▼★“”’°±–÷éüß")
    assert {sign for sign in signs if bytes(face.getmask(sign)) == missing} == set()
