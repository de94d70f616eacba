"""Charts of the GPU's utilisation and of joules per sample."""

from typing import Any

import pytest

from core.figures.style import on_dark
from core.rounds.answer.card_use import card_rows
from core.rounds.answer.energy import energy_of
from core.rounds.run import Run
from core.rounds.show.card_figures import energy_figure, utilisation_figure
from tests.support.energies import with_energy
from tests.support.traced import gpu_cell, with_traces


def words(figure: Any) -> str:
    return " ".join(note.text for note in figure.layout.annotations)


def curves(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.showlegend is not False}


def utilisation(run: Run) -> Any:
    return utilisation_figure(run, 1, card_rows(run, 1))


def test_utilisation_by_batch_beside_the_traced_share() -> None:
    run = with_traces(with_energy(), gpu_cell(1), gpu_cell(64, ratio=2.0))
    figure = utilisation(run)
    found = curves(figure)
    assert len(found) == 2
    busy = dict(zip(found["utilisation (NVML)"].x, found["utilisation (NVML)"].y, strict=True))
    assert (busy[1], busy[1024]) == pytest.approx((14.0, 96.0))
    traced = found["compute share of a traced step"]
    assert dict(zip(traced.x, traced.y, strict=True)) == {1: pytest.approx(61.0)}, "only what is to be trusted"
    assert "any kernel ran" in words(figure)
    assert "measured · 2026-01-01" in words(figure)
    assert set(curves(utilisation(with_traces(with_energy())))) == {"utilisation (NVML)"}


def test_energy_by_batch_gross_and_net_with_the_crossover() -> None:
    run = with_energy()
    energy = energy_of(run)
    figure = energy_figure(run, energy)
    found = curves(figure)
    assert set(found) == {f"{name}, {kind}" for name in ("CPU", "GPU 0") for kind in ("gross", "net of idle")}
    gross = dict(zip(found["GPU 0, gross"].x, found["GPU 0, gross"].y, strict=True))
    assert gross[1024] == pytest.approx(1000 * energy.of(1)[-1].gross.value)
    net = dict(zip(found["GPU 0, net of idle"].x, found["GPU 0, net of idle"].y, strict=True))
    assert all(net[batch] < gross[batch] for batch in gross)
    below, above = energy.crossover.below, energy.crossover.above
    assert f"between {below} and {above:,}" in words(figure)
    assert "GPU's energy counter" in words(figure)
    assert on_dark(figure).layout.paper_bgcolor != figure.layout.paper_bgcolor


@pytest.mark.parametrize("chart", [utilisation, lambda run: energy_figure(run, energy_of(run))])
def test_nothing_is_drawn_between_windows_as_if_measured(chart: Any) -> None:
    figure = chart(with_traces(with_energy()))
    assert {trace.mode for trace in figure.data} == {"markers"}
    assert all(len(trace.error_y.array) == len(trace.x) for trace in figure.data)
    assert "Bars: 95 %" in words(figure)


def test_energy_of_the_gpu_alone() -> None:
    run = with_energy(cpu_refused="Only root may read it.", tick_s=None)
    figure = energy_figure(run, energy_of(run))
    assert set(curves(figure)) == {f"GPU 0, {kind}" for kind in ("gross", "net of idle")}
    assert "needs less" not in words(figure)
    assert "no energy counter" in words(figure)


def test_a_name_from_outside_is_shown_as_it_is() -> None:
    run = with_energy().model_copy(update={"target_names": ("<b>x</b>", "%{y}"), "plan": None})
    figure = energy_figure(run, energy_of(run))
    assert any(name.startswith("&lt;b&gt;x&lt;/b&gt;,") for name in curves(figure))
    assert not [trace for trace in figure.data if "%{y}" in str(trace.name)]
