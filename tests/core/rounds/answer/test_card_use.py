"""The activity of a run's cards, by batch, in rows and sentences."""

from typing import Any

import pytest

from core.base.evidence import CardUse
from core.rounds.answer.analyse import analyse
from core.rounds.answer.card_use import (
    card_rows,
    card_text,
    clock_sentence,
    reasons_words,
    utilisation_sentence,
)
from core.rounds.run import EnergyWindow, Run
from core.rounds.show.export import card_lines, cards_csv, verdict_text
from core.workload.spec import Target
from simulated.runs import make_run, planned
from tests.support.energies import with_energy

GPU = (Target(), Target(device="gpu:0"))


def use(**about: Any) -> CardUse:
    return CardUse(**{"length_s": 2.0, "samples": 40, "busy": 40, "cpu_ms": 4.0, "ask_ms": 0.5} | about)


def with_windows(*uses: tuple[int, CardUse]) -> Run:
    windows = [EnergyWindow(target=1, batch=b, index=i, steps=9, length_s=2.0, card=u) for i, (b, u) in enumerate(uses)]
    return planned(make_run(2, label="measured"), targets=GPU).model_copy(update={"energy": tuple(windows)})


def with_blocks(found: CardUse) -> Run:
    """Return a run in which every block of the second target saw the card do that."""
    run = planned(make_run(2, label="measured"), targets=GPU)
    rounds = []
    for item in run.rounds:
        blocks = tuple(b.model_copy(update={"card": found}) if b.target else b for b in item.blocks)
        rounds.append(item.model_copy(update={"blocks": blocks}))
    return run.model_copy(update={"rounds": tuple(rounds)})


def test_utilisation_is_that_of_windows_with_an_interval() -> None:
    run = with_windows(*((32, use(util_pct=(v, 0.0, 50.0))) for v in (13.0, 14.0, 15.0)), (2048, use(util_pct=96.0)))
    small, large = card_rows(run, 1)
    assert small.util_pct is not None
    assert large.util_pct is not None
    assert (small.util_pct.value, large.util_pct.value, large.util_pct.low) == (14.0, 96.0, None)
    assert utilisation_sentence(run, (small, large)) == (
        "GPU 0 was busy 14 % (95 %: 12 to 16) of the time at batch 32 and 96 % (no interval) at batch 2,048 (measured)."
    )
    assert card_rows(run, 0) == ()


def test_a_short_blocks_utilisation_and_power_are_not_taken_for_its_own() -> None:
    run = with_blocks(use(length_s=0.02, samples=1, busy=1, util_pct=3.0, power_w=40.0, sm_mhz=1500.0, celsius=55.0))
    rows = card_rows(run, 1)
    assert {(row.util_pct, row.power_w, row.windows) for row in rows} == {(None, None, 0)}
    assert {(row.sm_mhz, row.celsius) for row in rows} == {((1500.0,) * 3, (55.0,) * 3)}
    assert utilisation_sentence(run, rows) == ""


def test_clocks_join_by_their_busy_samples() -> None:
    clocks = {30: (1000.0, 900.0, 1100.0), 10: 1400.0, 0: 300.0}
    run = with_windows(*((8, use(busy=busy, sm_mhz=clock)) for busy, clock in clocks.items()))
    (row,) = card_rows(run, 1)
    assert row.sm_mhz == (1100.0, 900.0, 1400.0)


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ({}, "Neither heat nor its power limit slowed it."),
        ({"power_cap": 1}, "Neither heat nor its power limit slowed it."),
        (
            {"power_cap": 36},
            "Its power limit set the clock at batch 8, which is normal under load; heat did not slow it.",
        ),
        (
            {"power_cap": 36, "sw_thermal": 10},
            "Its clock was held down in 25 % of the samples, at batch 8 in 25 %: thermal slowdown by the driver. Mind "
            "its cooling and power supply; a cooler GPU would be faster.",
        ),
    ],
)
def test_a_power_cap_is_told_apart_from_heat(reasons: dict[str, int], said: str) -> None:
    rows = card_rows(with_windows((8, use(reasons=reasons))), 1)
    assert clock_sentence(rows) == said


def test_reasons_are_shares_of_the_busy_samples() -> None:
    (row,) = card_rows(with_windows((8, use(busy=20, reasons={"power_cap": 5, "hw_thermal": 10}))), 1)
    assert "hardware 50 %" in reasons_words(row)
    assert "cap 25 %" in reasons_words(row)
    assert reasons_words(card_rows(with_windows((8, use(busy=0))), 1)[0]) == "none"


def test_the_text_of_a_run_has_a_line_for_each_answer() -> None:
    run = with_energy()
    lines = card_text(run)
    assert [line.split(" ")[0] for line in lines] == ["GPU", "GPU"]
    assert "a batch between" in lines[1]
    text = verdict_text(run, analyse(run))
    assert all(line in text for line in lines)
    assert card_text(make_run(1)) == []


@pytest.mark.parametrize(
    ("about", "begin"),
    [
        ({"budget_s": 30.0}, "Energy was not measured: 25 % of the budget of 30 s"),
        ({"cpu_refused": "Only root may read it."}, "Energy: Only root may read it."),
    ],
)
def test_energy_is_named_once_where_it_was_not_measured(about: dict[str, Any], begin: str) -> None:
    assert any(line.startswith(begin) for line in card_text(with_energy(**about)))


def test_the_table_holds_what_is_known_of_both_targets() -> None:
    run = with_energy()
    lines = {(line.target, line.batch): line for line in card_lines(run)}
    gpu, cpu = lines["gpu:0", 1024], lines["cpu", 1024]
    assert gpu.utilisation_pct == pytest.approx(96.0)
    assert gpu.joules is not None
    assert cpu.joules is not None
    assert gpu.joules < cpu.joules
    assert (gpu.energy_from, cpu.energy_from, cpu.utilisation_pct) == ("counter", "package", None)
    assert gpu.cpu_package_joules is not None
    csv = cards_csv(run).splitlines()
    assert csv[0].startswith("target,batch,energy_windows,utilisation_pct,")
    assert len(csv) == 1 + len(lines)
    assert cards_csv(make_run(1)).count("\n") == 1
