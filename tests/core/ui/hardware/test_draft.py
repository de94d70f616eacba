"""The settings that the Hardware page reads from an address and its forms, and the sentence for each error."""

from dataclasses import replace
from typing import Any

import pytest

from core.hardware.catalogue import CardPrice, catalogue
from core.hardware.compare import compare, sort_readings
from core.hardware.decision import decide
from core.hardware.host import Conditions, Modelling
from core.hardware.interval import REGION_WORDS, errors
from core.rounds.answer.best_cpu import cpu_targets
from core.ui.hardware import draft
from core.workload.spec import Target
from simulated.hosts import cells_of, cpu_run, make_costs
from simulated.runs import make_run

BATCHES = (1, 4, 16, 60, 256)
RUN = cpu_run(lambda batch: 0.5 + 0.2 * batch, BATCHES)
ANSWER = cells_of(RUN)
CARDS = catalogue()
USUAL = draft.usual_options(RUN, ANSWER, 0, CARDS)
DRAFT = draft.OwnDraft("Ours", 20.0, None, 16.0, 500.0, "PCIe 4.0 x16", None, None, "2026-11-21")


def readings(batch: int = 60, prices: dict[str, CardPrice] | None = None) -> Any:
    shown = [CARDS[name] for name in ("T4", "H100-SXM", "Apple-M1", "RTX-4090")]
    return compare(RUN, ANSWER, 0, shown, Modelling(RUN.plan.workload, USUAL.target, make_costs()), batch, prices)


def rows_of(found: Any) -> list[dict[str, str]]:
    return draft.card_rows(found, decide(found, 60))


def test_the_usual_options_are_the_cpus_own_at_the_measured_batch_nearest_to_64() -> None:
    assert (USUAL.index, USUAL.batch, USUAL.conditions.fed) == (0, 60, False)
    assert USUAL.target == Target(device="gpu:0")
    assert set(USUAL.gpus) <= set(CARDS)
    assert len(USUAL.gpus) == 4
    assert cpu_targets(RUN, ANSWER) == (0, 1)


def test_an_address_gives_back_the_options_that_made_it() -> None:
    made = replace(
        USUAL, index=1, batch=17, gpus=("T4", "H100-SXM"), precision="mixed_bfloat16", execution="xla",
        conditions=Conditions(fed=True, build="fused", under_fit=True),
        host="weak",
    )  # fmt: skip
    assert draft.read_options(made.query(), USUAL, (0, 1), CARDS) == (made, ())
    assert draft.read_options({}, USUAL, (0, 1), CARDS) == (USUAL, ())


@pytest.mark.parametrize("text", ["abc", "0", "-3", "1.5", "70000", "", "²", "9" * 30])
def test_a_batch_that_is_none_is_reported_and_the_usual_one_counts(text: str) -> None:
    options, problems = draft.read_options({"batch": text}, USUAL, (0, 1), CARDS)
    assert options.batch == 60
    assert len(problems) == 1
    assert "is no batch from 1 to 65,536; 60 counts." in problems[0]


def test_unknown_cards_are_reported_with_the_nearest_names_and_the_others_count() -> None:
    options, problems = draft.read_options({"gpus": "t4~a100 80gb sxm~RTX-409~T4"}, USUAL, (0,), CARDS)
    assert options.gpus == ("T4", "A100-80GB-SXM")
    assert len(problems) == 1
    assert "RTX-4090" in problems[0]
    assert draft.read_options({"gpus": "nothing~like~it"}, USUAL, (0,), CARDS)[0].gpus == USUAL.gpus
    many = "~".join(CARDS)
    assert len(draft.read_options({"gpus": many}, USUAL, (0,), CARDS)[0].gpus) == 6


def test_a_target_that_is_no_cpu_and_unknown_words_are_passed_over() -> None:
    query = {
        "against": "second",
        "precision": "float7",
        "execution": "magic",
        "data": "elsewhere",
        "build": "his",
        "fit": "perhaps",
    }
    assert draft.read_options(query, USUAL, (0,), CARDS) == (USUAL, ())


def test_what_was_changed_of_how_steps_run_is_said_and_nothing_else() -> None:
    assert draft.changed_words(replace(USUAL, batch=3, gpus=("T4",), host="20260107-host"), USUAL) == ""
    changed = replace(
        USUAL, precision="mixed_float16", execution="eager", host="server",
        conditions=Conditions(fed=True, build="fused", under_fit=True),
    )  # fmt: skip
    assert draft.changed_words(changed, USUAL) == (
        "How steps run, changed: mixed_float16; execution eager; each batch over the link; a vendor's fused build; "
        "with what the loop of fit adds; driven by a server of before 2020."
    )
    fed = Conditions(fed=True, build="unnamed")
    back = draft.changed_words(USUAL, replace(USUAL, conditions=fed))
    assert back == "How steps run, changed: data on the card."


def test_runs_that_cannot_be_compared_say_why() -> None:
    assert draft.refusal(RUN, 0) is None
    assert draft.refusal(RUN, None) == draft.NO_CPU
    assert draft.refusal(RUN.model_copy(update={"plan": None}), None) == draft.NO_PLAN
    assert draft.refusal(make_run(3, status="running"), 0) == draft.STILL_RUNNING


@pytest.mark.parametrize(("batch", "wrong"), [(None, True), (0, True), (65_537, True), (1, False), (65_536, False)])
def test_batches(batch: int | None, wrong: bool) -> None:
    assert bool(draft.wrong_batch(batch)) is wrong


def test_a_batch_outside_the_measured_range_is_said() -> None:
    assert draft.unmeasured_batch(RUN, ANSWER, 0, 256) == ""
    assert "from batch 1 to 256, so no speed-up is known at batch 512" in draft.unmeasured_batch(RUN, ANSWER, 0, 512)


def test_a_card_of_ones_own_needs_three_numbers_and_a_link() -> None:
    card, wrong = draft.build_own(replace(DRAFT, per_hour=1.5, half_tflops=80.0), ())
    assert wrong == {}
    spec = card.spec()
    assert (spec.name, spec.own, spec.half_tflops, spec.link_gb_s) == ("Ours", True, 80.0, 24.8)
    assert card.price == CardPrice(per_hour=1.5, currency="USD", dated="2026-11-21", source="yours")
    other = draft.build_own(replace(DRAFT, link=draft.OTHER_LINK, link_gb_s=300.0), ())[0]
    assert other.spec().link_gb_s == 300.0
    assert draft.OTHER_LINK in draft.links()


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"name": "  "}, "name", "Give the card a name."),
        ({"name": "t4"}, "name", "“t4” is there already"),
        ({"fp32_tflops": None}, "fp32_tflops", "Say its peak rate in float32, in TFLOP/s."),
        ({"memory_gb": None}, "memory_gb", "Say its memory, in GB."),
        ({"bandwidth_gb_s": None}, "bandwidth_gb_s", "Say its memory bandwidth, in GB/s."),
        ({"link": draft.OTHER_LINK}, "link_gb_s", "Say how many GB/s the link carries"),
        ({"per_hour": 0.0}, "price", "A price per hour is above 0"),
        ({"per_hour": 1e7}, "price", "A price per hour is above 0"),
        ({"fp32_tflops": -1.0}, "card", "0.05"),
        ({"name": "<b>"}, "card", "name"),
    ],
)
def test_what_is_wrong_with_a_card_is_said_beside_its_field(change: dict[str, Any], field: str, sentence: str) -> None:
    card, wrong = draft.build_own(replace(DRAFT, **change), ("T4",))
    assert card is None
    assert list(wrong) == [field]
    assert sentence in wrong[field]


def test_prices_of_ones_own_replace_list_prices_and_impossible_ones_are_said() -> None:
    prices, wrong = draft.own_prices({"T4": 0.9, "L4": None, "A10": -1.0, "A40": 1e9}, "2026-11-21")
    assert list(prices) == ["T4"]
    assert (prices["T4"].per_hour, prices["T4"].source) == (0.9, "yours")
    assert list(wrong) == ["A10", "A40"]
    rows = {row["card"]: row for row in rows_of(readings(prices=prices))}
    assert rows["T4"]["price"] == "0.9 USD (2026-11-21)"
    assert rows["H100-SXM"]["price"].startswith("3.78 USD (")
    assert rows["RTX-4090"]["cost"] == rows["RTX-4090"]["price"] == ""


def test_every_row_of_the_table_has_a_label_and_withheld_ones_stand_last_with_the_reason() -> None:
    for key in ("crossover", "speed_up", "cost"):
        rows = rows_of(sort_readings(readings(), key))  # type: ignore[arg-type]
        assert [row["label"] for row in rows] == ["modelled", "modelled", "modelled", "withheld"]
        assert rows[-1]["card"] == "Apple-M1"
        assert "Apple" in rows[-1]["note"]
        assert not any(rows[-1][name] for name in ("speed_up", "step_ms", "cost", "resolve"))
        assert rows[-1]["standing"] == "no number"
        for row in rows[:-1]:
            assert row["limited_by"] in ("host", "launch", "bandwidth", "arithmetic", "transfer")
            assert " to " in row["speed_up"]
            assert row["standing"] in ("clearly faster", "clearly slower", "not resolved")
            assert bool(row["resolve"]) is (row["standing"] == "not resolved")


def test_the_cost_is_the_price_of_the_step_time() -> None:
    prices, _ = draft.own_prices({"T4": 3.6}, "2026-11-21")
    one = next(reading for reading in readings(prices=prices) if reading.spec.name == "T4")
    assert one.cost.per_million == pytest.approx(
        one.step.step_ms / 60
    )  # 3.6 an hour is a millionth for each millisecond


def test_the_models_errors_are_reported_by_card_by_source_by_class_and_against_their_goals() -> None:
    known = errors()
    for found in (known.by_card, known.by_source):
        rows = draft.held_out_errors(found)
        assert len(rows) == len(found)
        assert all(row["median"].endswith(" %") for row in rows)
        for row, held_out in zip(rows, found, strict=True):
            assert [bool(row[region]) for region in REGION_WORDS] == [r in held_out.by_region for r in REGION_WORDS]
    assert [row["what"] for row in draft.goal_rows(known)] == [goal.what for goal in known.goals]
    by_class = draft.class_errors(known)
    assert len(by_class) == len(known.classes)
    borrowed = [row["evidence"] != "its own measurements" for row in by_class]
    assert borrowed == sorted(borrowed)
    for row in by_class:
        low, _, high = row["interval"].partition(" to ")
        assert float(low) <= 1 <= float(high)
