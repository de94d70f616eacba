"""The answers of one GPU through NVML, and their summary."""

from typing import Any

import pytest

from core.base.evidence import CardUse
from core.machine.meter import ENERGY_S, Card, CardSample, energy, summarise
from core.machine.nvml import Handle
from simulated.fake_nvml import FakeCard, FakeNvml

POWER_CAP, HW_THERMAL, GPU_IDLE = 4, 64, 1


def made(**about: Any) -> tuple[Card, FakeNvml]:
    nvml = FakeNvml([FakeCard(**about)])
    return Card(nvml, Handle(nvml.cards[0], nvml.cards[0])), nvml


def test_all_questions_are_answered_in_our_units() -> None:
    card, _ = made(utilisation_pct=14, power_mw=71_500, energy_mj=2_500, memory_used=900_000_000, reasons=POWER_CAP)
    sample = card.sample(1.0)
    assert sample.values == {
        "util_pct": 14, "sm_mhz": 1590, "memory_mhz": 5000, "power_w": 71.5, "celsius": 40, "used_mb": 900,
        "energy_j": 2.5,
    }  # fmt: skip
    assert (sample.reasons, sample.idle) == (("power_cap",), False)
    card, _ = made(pcie_tx_kb_s=1_500, pcie_rx_kb_s=3_000_000)
    assert card.ask(("tx_mb_s", "rx_mb_s")) == {"tx_mb_s": 1.5, "rx_mb_s": 3000.0}


def test_several_cards_answer_as_one() -> None:
    """Check the sum: they work together, so what they use adds up, and a hot or slowed card delays the others."""
    first = FakeCard(utilisation_pct=20, power_mw=70_000, energy_mj=1_000, temperature_c=50, reasons=GPU_IDLE)
    second = FakeCard(utilisation_pct=40, power_mw=50_000, energy_mj=2_000, temperature_c=80, reasons=HW_THERMAL)
    nvml = FakeNvml([first, second])
    card = Card(nvml, *(Handle(one, one) for one in nvml.cards))
    sample = card.sample(0.0)
    values = sample.values
    assert (values["util_pct"], values["power_w"], values["energy_j"], values["celsius"]) == (30, 120, 3, 80)
    assert (sample.reasons, sample.idle) == (("hw_thermal",), False)
    second.energy_mj = None
    assert "energy_j" not in card.sample(0.1).values, "a sum that lacks a part is none"


def test_a_question_without_an_answer_is_asked_once() -> None:
    card, nvml = made(utilisation_pct=None, energy_mj=None)
    for at_s in (0.0, 0.1, 0.2):
        assert {"util_pct", "energy_j"}.isdisjoint(card.sample(at_s).values)
    assert nvml.asked.count("nvmlDeviceGetUtilizationRates") == 1
    assert nvml.asked.count("nvmlDeviceGetTotalEnergyConsumption") == 1
    assert nvml.asked.count("nvmlDeviceGetPowerUsage") == 3


def test_a_driver_that_still_calls_them_throttle_reasons_is_asked_so() -> None:
    card, nvml = made(reasons=HW_THERMAL)

    def refuse(name: str) -> None:
        if name == "nvmlDeviceGetCurrentClocksEventReasons":
            raise RuntimeError("Function Not Found")

    nvml.before = refuse
    assert [card.sample(at_s).reasons for at_s in (0.0, 0.1)] == [("hw_thermal",)] * 2
    assert nvml.asked.count("nvmlDeviceGetCurrentClocksEventReasons") == 1
    card, nvml = made(reasons=None)
    assert [card.sample(at_s).reasons for at_s in (0.0, 0.1)] == [None, None]


def test_of_a_mig_slice_nothing_is_asked_that_other_slices_are_in() -> None:
    part = FakeCard(memory_used=50_000_000)
    nvml = FakeNvml([FakeCard(mig=(part,))])
    card = Card(nvml, Handle(nvml.cards[0], part))
    values = card.sample(0.0).values
    assert card.divided
    assert values == {"sm_mhz": 1590, "memory_mhz": 5000, "celsius": 40, "used_mb": 50}


def of_values(*values: dict[str, float], every_s: float = 0.05) -> list[CardSample]:
    return [CardSample(at_s=every_s * i, values=dict(value)) for i, value in enumerate(values)]


def test_a_summary_has_mean_least_and_most_and_one_number_where_all_are_alike() -> None:
    found = summarise(of_values(*({"util_pct": v, "celsius": 60.0} for v in (10, 14, 20))), 0.1, 0.25, 1.5)
    assert found == CardUse(
        length_s=0.1, samples=3, busy=3, util_pct=(14.67, 10, 20), celsius=60, cpu_ms=0.25, ask_ms=1.5
    )
    assert CardUse.read_json(found.model_dump_json()) == found
    assert "power_w" not in found.model_dump_json()


def test_reasons_clocks_and_temperature_count_only_while_the_gpu_was_busy() -> None:
    idle = {"sm_mhz": 300.0, "memory_mhz": 405.0, "celsius": 30.0, "used_mb": 9.0}
    samples = [
        CardSample(0.0, idle, ("hw_thermal", "power_cap"), idle=True),
        CardSample(0.1, {"sm_mhz": 900.0}, ("power_cap",)),
        CardSample(0.2, {"sm_mhz": 900.0}, ("power_cap", "applications_clocks")),
    ]
    found = summarise(samples, 0.3, 0.0, 0.0)
    assert (found.busy, found.reasons) == (2, {"power_cap": 2, "applications_clocks": 1})
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.used_mb) == (900.0, None, None, 9.0)
    assert not found.slowed
    assert summarise([CardSample(0.0, {}, ("sw_thermal",))], 0.1, 0.0, 0.0).slowed


@pytest.mark.parametrize("tick_s", [0.02, 0.1, 0.25])
@pytest.mark.parametrize("phase_s", [0.0, 0.03, 0.09])
def test_energy_by_a_counter_that_seldom_moves(tick_s: float, phase_s: float) -> None:
    """Check a steady 150 W: a sample may come up to 50 ms after the counter moved, at each end of two seconds."""
    ticks = ({"energy_j": 150.0 * tick_s * ((0.05 * i + phase_s) // tick_s), "power_w": 1.0} for i in range(41))
    joules, source = energy(of_values(*ticks), 2.0)
    assert source == "counter"
    assert joules == pytest.approx(300.0, rel=0.05 / 1.7)


@pytest.mark.parametrize("counter", [{}, {"energy_j": 7.0}], ids=["none", "stands still"])
def test_without_a_counter_that_moves_energy_is_power_times_time_and_says_so(counter: dict[str, float]) -> None:
    samples = of_values(*({"power_w": 100.0 + 50 * (i % 2)} | counter for i in range(40)))
    assert energy(samples, 2.0) == (pytest.approx(250.0), "power")
    assert energy(of_values(*({"util_pct": 1.0},) * 40), 2.0) == (None, None)


def test_a_short_block_has_no_energy() -> None:
    samples = of_values(*({"power_w": 100.0, "energy_j": 10.0 * i} for i in range(40)))
    assert energy(samples, ENERGY_S - 0.01) == (None, None)
