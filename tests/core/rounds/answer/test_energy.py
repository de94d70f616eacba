"""Joules per sample from windows of known energy, and claims that one target needs less."""

from collections.abc import Sequence

import numpy as np
import pytest

from core.analysis.statistics import t_quantile
from core.base.evidence import CardUse
from core.rounds.answer.energy import EnergyCrossover, energy_of, energy_sentence, energy_words, fed_sentence, level
from core.rounds.run import EnergyWindow, Run
from core.workload.spec import Target
from simulated.runs import make_run, planned

STEPS = 100


def window(target: int, batch: int | None, joules: float, index: int = 0, fed: float | None = None) -> EnergyWindow:
    """Return a window of ``joules`` per sample, or of as many watts for the idle machine; always two seconds."""
    whole = 2.0 * joules if batch is None else joules * STEPS * batch
    card = CardUse(length_s=2.0, samples=40, energy_j=whole, energy_from="counter") if target else None
    package = whole if not target else None if fed is None else fed * STEPS * (batch or 0)
    return EnergyWindow(
        target=target, batch=batch, index=index, steps=0 if batch is None else STEPS, length_s=2.0, card=card,
        package_j=package,
    )  # fmt: skip


def run_of(*windows: EnergyWindow) -> Run:
    run = planned(make_run(1), targets=(Target(), Target(device="gpu:0")))
    return run.model_copy(update={"energy": windows, "label": "measured"})


def cells(batches: dict[int, tuple[Sequence[float], Sequence[float]]]) -> list[EnergyWindow]:
    """Return windows of both targets at each batch, from their joules per sample."""
    return [
        window(target, batch, joules, index)
        for batch, pair in batches.items()
        for target, values in enumerate(pair)
        for index, joules in enumerate(values)
    ]


def around(value: float, spread: float = 0.01) -> list[float]:
    return [value * (1 - spread), value, value * (1 + spread)]


def test_a_level_is_a_mean_with_a_t_interval_of_three_values_or_more() -> None:
    found = level([1.0, 2.0, 3.0])
    half = t_quantile(0.975, 2) / np.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    assert (level([1.0, 2.0]).value, level([1.0, 2.0]).low) == (1.5, None)


def test_what_is_idle_is_taken_off_and_how_much_it_varies_is_in_the_interval() -> None:
    idle = [window(1, None, watts, index) for index, watts in enumerate((28.0, 30.0, 32.0))]
    (cell,) = energy_of(run_of(*idle, *cells({8: ((), (0.5, 0.5, 0.5))}))).cells
    per_sample = 2.0 / (STEPS * 8)
    assert cell.net is not None
    assert cell.net.value == pytest.approx(0.5 - 30.0 * per_sample)
    assert (cell.gross.low, cell.gross.high) == (0.5, 0.5)
    half = t_quantile(0.975, 2) * np.std([28.0, 30.0, 32.0], ddof=1) / np.sqrt(3) * per_sample
    assert (cell.net.low, cell.net.high) == pytest.approx((cell.net.value - half, cell.net.value + half))
    (cell,) = energy_of(run_of(*cells({8: ((), (0.5,) * 3)}))).cells
    assert cell.net is None, "without the idle machine"


def test_what_fed_the_gpu_stands_beside_it() -> None:
    fed = [window(1, 8, 0.5, index, fed=0.2) for index in range(3)]
    found = energy_of(run_of(*fed))
    assert found.cells[0].whole == pytest.approx(0.7)
    assert "another 200 mJ" in fed_sentence(run_of(*fed), found)
    assert energy_of(run_of(*fed[:2], window(1, 8, 0.5, 2))).cells[0].fed is None, "known in two of three"


@pytest.mark.parametrize(
    ("batches", "crossover"),
    [
        ({1: (1.0, 9.0), 64: (1.0, 2.0), 256: (1.0, 0.5)}, EnergyCrossover("crossover", 1, 64, 256)),
        ({1: (9.0, 1.0), 64: (2.0, 1.0), 256: (0.5, 1.0)}, EnergyCrossover("crossover", 0, 64, 256)),
        ({1: (1.0, 9.0), 64: (1.0, 1.001), 256: (1.0, 0.5)}, EnergyCrossover("crossover", 1, 1, 256)),
        ({1: (1.0, 9.0), 64: (1.0, 2.0)}, EnergyCrossover("throughout", 0)),
        ({1: (1.0, 0.9)}, EnergyCrossover("throughout", 1)),
        ({1: (1.0, 1.001), 64: (1.0, 2.0)}, EnergyCrossover("open")),
        ({1: (1.0, 9.0), 64: (1.0, 0.5), 256: (1.0, 1.001)}, EnergyCrossover("open")),
        ({1: (1.0, 9.0), 8: (1.0, 1.001), 64: (1.0, 9.0), 256: (1.0, 0.5)}, EnergyCrossover("open")),
        ({1: (1.0, 9.0), 64: (1.0, 0.5), 256: (1.0, 2.0)}, EnergyCrossover("open")),
    ],
)
def test_who_needs_less_from_where(batches: dict[int, tuple[float, float]], crossover: EnergyCrossover) -> None:
    made = cells({batch: (around(first), around(second)) for batch, (first, second) in batches.items()})
    assert energy_of(run_of(*made)).crossover == crossover


def test_without_an_interval_there_is_no_claim() -> None:
    two = cells({1: (around(1.0)[:2], around(9.0)[:2])})
    found = energy_of(run_of(*two))
    assert found.crossover == EnergyCrossover("unknown")
    assert "8.96 J" in energy_words(found.cells[1].gross)
    assert "2 of 3" in energy_words(found.cells[1].gross)
    assert "Too few" in energy_sentence(run_of(*two), found)
    one_side = cells({1: ((), around(9.0))})
    assert energy_of(run_of(*one_side)).crossover == EnergyCrossover("unknown")


@pytest.mark.statistical
def test_equal_targets_are_seldom_told_apart() -> None:
    """Check that at eight batches, with the correction for their number, at most 5 % of runs make a claim."""
    rng = np.random.default_rng(7)
    claims = 0
    for _ in range(300):
        values = {
            b: (list(rng.normal(1, 0.02, 3)), list(rng.normal(1, 0.02, 3))) for b in (1, 2, 4, 8, 16, 32, 64, 128)
        }
        found = energy_of(run_of(*cells(values))).crossover
        claims += found.pattern not in ("open", "unknown")
    assert claims <= 15


def test_more_batches_need_a_clearer_lead_at_each() -> None:
    """Check a difference of 4.3 %, 5.3 of its standard errors: t at 97.5 % with two degrees is 4.3, at 98.75 % 6.2."""
    doubtful = {1: (around(1.0), around(1.043))}
    assert energy_of(run_of(*cells(doubtful))).crossover == EnergyCrossover("throughout", 0)
    two = doubtful | {64: (around(1.0), around(2.0))}
    assert energy_of(run_of(*cells(two))).crossover == EnergyCrossover("open")


def test_sentences_name_the_target_its_meter_and_the_label() -> None:
    made = run_of(*cells({64: (around(1.0), around(2.0)), 256: (around(1.0), around(0.5))}))
    assert energy_sentence(made, energy_of(made)) == (
        "GPU 0 (the card alone) needs less energy per sample than CPU (the CPU packages) from a batch between 64 and "
        "256 on (measured, 95 %)."
    )
    made = run_of(*cells({64: (around(1.0), around(2.0))}))
    assert energy_sentence(made, energy_of(made)) == (
        "CPU (the CPU packages) needs less energy per sample than GPU 0 (the card alone) wherever it was measured, at "
        "batch 64 (measured, 95 %)."
    )
    made = run_of(*cells({1: (around(1.0), around(1.0)), 64: (around(1.0), around(1.0))}))
    assert energy_sentence(made, energy_of(made)).endswith("is not clear from the windows at batches 1, 64.")
    why = EnergyWindow(target=0, skipped="Only root may read it.")
    made = run_of(why, why.model_copy(update={"index": 1}), *cells({64: ((), around(2.0))}))
    assert energy_sentence(made, energy_of(made)) == "Only root may read it."
    assert energy_of(made).skipped == ("Only root may read it.",)
    assert energy_sentence(make_run(1), energy_of(make_run(1))) == ""


def test_a_window_without_energy_is_no_value() -> None:
    blind = EnergyWindow(target=1, batch=8, steps=5, length_s=2.0, card=CardUse(length_s=2.0, samples=4))
    assert energy_of(run_of(blind)).cells == ()
