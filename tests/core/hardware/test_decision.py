"""The decision at a batch: every card is counted once, in words that match its interval, with what would resolve it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.compare import CardReading, compare
from core.hardware.crossing import ModelledSpeedUp, cross, speed_up
from core.hardware.curve import RecordedStep
from core.hardware.decision import CardDecision, Narrowed, about, decide, headline, remedy_words, standing_of
from core.hardware.host import Modelling, costs_of_kind
from core.workload.spec import Target
from simulated.hosts import CARD, cells_of, cpu_run, make_costs, make_curve

BATCHES = (1, 8, 64, 512)
RUN = cpu_run(lambda b: 0.1 * b**0.8, BATCHES)
ANSWER = cells_of(RUN)
GPU = Target(device="gpu:0")
CPU = f"the CPU's best ({RUN.names[0]})"
(ROW,) = compare(RUN, ANSWER, 0, (CARD,), Modelling(RUN.plan.workload, GPU, make_costs()), 64)
HOW = Modelling(RUN.plan.workload, GPU, costs_of_kind("desktop", "graph"))


def ratio(low: float, high: float) -> ModelledSpeedUp:
    return ModelledSpeedUp(64, (low * high) ** 0.5, low, high)


def reading(name: str, speed_up: ModelledSpeedUp | None) -> CardReading:
    return replace(ROW, spec=CARD.model_copy(update={"name": name}), speed_up=speed_up)


def readings(faster: int, slower: int, open_: int, withheld: int) -> list[CardReading]:
    kinds = [(2.0, 3.0)] * faster + [(0.2, 0.5)] * slower + [(0.8, 2.1)] * open_ + [None] * withheld
    return [reading(f"Card {i}", ends and ratio(*ends)) for i, ends in enumerate(kinds)]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ((31, 6, 7, 0), f"31 of 44 cards are clearly faster than {CPU}, 6 clearly slower, for 7 it is "
                        "not clear."),
        ((25, 6, 7, 6), f"25 of 44 cards are clearly faster than {CPU}, 6 clearly slower, for 7 it is "
                        "not clear; 6 get no number."),
        ((1, 0, 0, 1), f"1 of 2 cards is clearly faster than {CPU}, none clearly slower; "
                       "1 gets no number."),
        ((0, 3, 0, 0), f"none of 3 cards are clearly faster than {CPU}, 3 clearly slower."),
    ],
)  # fmt: skip
def test_the_sentence_has_every_count(counts: tuple[int, int, int, int], sentence: str) -> None:
    found = decide(readings(*counts), 64)
    assert found.sentence.endswith(f"batch 64, {sentence}")
    assert (found.faster, found.slower, found.not_resolved, found.no_number) == counts
    assert (found.batch, found.cpu, found.label) == (64, RUN.names[0], "modelled")


def test_nothing_is_clear_where_the_cpus_own_noise_is_not_known() -> None:
    unknown = replace(ROW.crossover, why_no_claim="how much it scatters is not known yet. Measure more.")
    found = decide([replace(one, crossover=unknown) for one in readings(38, 2, 3, 1)], 64)
    assert (found.faster, found.slower, found.not_resolved, found.no_number) == (0, 0, 43, 1)
    assert found.headline.endswith("Measure more.")
    assert "38" not in found.headline + found.sentence
    assert not found.cpu_known


def test_without_any_number_the_reason_is_the_sentence() -> None:
    withheld = make_curve(lambda _: 1.0, BATCHES, withheld=BATCHES)
    none = [replace(one, curve=withheld, step=None) for one in readings(0, 0, 0, 3)]
    assert "none of 3" in decide(none, 64).sentence
    outside = decide(readings(0, 0, 0, 3), 9999)
    assert "batch 9,999" in outside.sentence
    assert f"{CPU} was not measured" in outside.cards[0].sentence
    assert "no number for" in decide(none, 64).cards[0].sentence


@given(st.lists(st.none() | st.tuples(st.floats(0.1, 10), st.floats(1.0, 10)), min_size=1, max_size=12))
def test_each_card_is_counted_once_by_where_its_interval_lies(cases: list[tuple[float, float] | None]) -> None:
    found = decide([reading(f"C{i}", one and ratio(one[0], one[0] * one[1])) for i, one in enumerate(cases)], 64)
    assert found.faster + found.slower + found.not_resolved + found.no_number == len(cases) == len(found.cards)
    known = [card.speed_up for card in found.cards if card.speed_up is not None]
    assert found.faster == sum(one.low > 1 for one in known)
    assert found.slower == sum(one.high < 1 for one in known)
    assert found.no_number == cases.count(None)
    assert [found.card(card.gpu) for card in found.cards] == list(found.cards)


def test_a_bound_that_is_parity_itself_decides_nothing() -> None:
    assert standing_of(ratio(1.0, 2.0)) == standing_of(ratio(0.5, 1.0)) == "not resolved"
    assert standing_of(ratio(1.0001, 2.0)) == "clearly faster"
    assert standing_of(ratio(0.5, 0.9999)) == "clearly slower"
    assert standing_of(None) == "no number"


def test_a_card_says_its_interval_and_only_one_that_is_not_resolved_what_would_resolve_it() -> None:
    faster, slower, unresolved = decide(readings(1, 1, 1, 0), 64, HOW).cards
    assert faster.sentence == f"Modelled: Card 0 is clearly faster than {CPU} at batch 64 (2 to 3 times as fast, 95 %)."
    assert slower.sentence == (
        f"Modelled: Card 1 is clearly slower than {CPU} at batch 64 (0.2 to 0.5 times as fast, 95 %)."
    )
    assert faster.narrowed == slower.narrowed == ()
    assert remedy_words(faster) == remedy_words(slower) == ""
    assert unresolved.sentence.startswith(
        f"Modelled: whether Card 2 is faster than {CPU} at batch 64 is not clear (0.8 to 2.1 times as fast, 95 %). "
    )
    assert remedy_words(unresolved)


def test_the_headline_counts_cards_that_are_clearly_faster_from_some_batch_on() -> None:
    def shown(ms: float, **options: object) -> CardReading:
        curve = make_curve(lambda _: ms, BATCHES, -0.2, 0.2, **options)
        return replace(ROW, crossover=cross(RUN, ANSWER, curve))

    some = [shown(0.01), shown(1.0), shown(1e3), shown(15.0), shown(1.0, withheld=BATCHES)]
    assert [one.crossover.clearly_from is not None for one in some] == [True, True, False, False, False]
    assert headline(some) == (
        f"Modelled: 2 of 5 cards are clearly faster than {CPU} from a batch within 1 to 512; 1 clearly slower at all "
        "of them, 1 not clear, 1 without a number."
    )
    assert headline(some[:1]) == f"Modelled: 1 of 1 cards is clearly faster than {CPU} from a batch within 1 to 512."
    assert headline(some[3:4]) == (
        f"Modelled: none of 1 cards are clearly faster than {CPU} from a batch within 1 to 512; 1 not clear."
    )
    assert headline(some[4:]) == f"Modelled: none of 1 cards can be compared with {CPU}."


def with_ways(monkeypatch: pytest.MonkeyPatch, *ways: Narrowed) -> CardDecision:
    monkeypatch.setattr("core.hardware.decision.narrowed", lambda *_: ways)
    (card,) = decide([reading("RTX", ratio(0.8, 2.1))], 64, HOW).cards
    return card


HOST, SWEEP = Narrowed("host study", 0.9, 1.7, False), Narrowed("recorded sweep", 1.1, 1.5, True)


def test_the_sentence_names_each_measurement_with_its_interval_and_which_would_resolve_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = with_ways(monkeypatch, HOST, SWEEP)
    assert card.sentence == (
        f"Modelled: whether RTX is faster than {CPU} at batch 64 is not clear (0.8 to 2.1 times as fast, 95 %). "
        "Measuring the host’s overhead "
        "(15 s here, or the file of a self-check on the machine with the card) would narrow it to about 0.9 to 1.7; "
        "one recorded sweep of another such network on such a card to about 1.1 to 1.5, which would make it clear."
    )
    assert remedy_words(card) == "recorded sweep (1.1 to 1.5)"


def test_nothing_is_said_to_resolve_it_where_none_would(monkeypatch: pytest.MonkeyPatch) -> None:
    card = with_ways(monkeypatch, HOST, replace(SWEEP, low=0.95, high=1.6, resolves=False))
    assert "make it clear" not in card.sentence
    assert "would replace the" in card.sentence
    assert "0.95 to 1.6" in remedy_words(card)
    bare = with_ways(monkeypatch)
    assert "would replace the" in bare.sentence  # fmt: skip
    assert "narrows" not in remedy_words(bare)


def test_what_was_recorded_already_is_not_asked_for_again() -> None:
    one = reading("T4", ratio(0.9, 1.2))
    step = RecordedStep("T4", 64, 1.0, 0.9, 1.1, "launch", "recorded: a run", "recorded")
    corrected = replace(one, curve=replace(one.curve, corrected_by="recorded on T4: a run (r1)"))
    for case in (replace(one, step=step), corrected):
        (card,) = decide([case], 64, HOW).cards
        assert card.narrowed == ()
        assert "more rounds there" in card.sentence
        assert "more rounds" in remedy_words(card)


@given(st.floats(0.001, 2000.0))
def test_no_rounding_moves_a_bound_to_the_other_side_of_parity_or_onto_it(value: float) -> None:
    text = about(value)
    assert re.fullmatch(r"[\d,]+(\.\d+)?", text)
    shown = float(text.replace(",", ""))
    if abs(value - 1) > 1e-5:
        assert (shown > 1) is (value > 1)
        assert shown != 1


@pytest.mark.parametrize(("ms", "kind", "standing"), [
    (0.01, "gpu ahead throughout", "clearly faster"), (1e3, "cpu ahead throughout", "clearly slower"),
])  # fmt: skip
def test_a_card_that_is_ahead_throughout_is_so_at_the_batch(ms: float, kind: str, standing: str) -> None:
    curve = make_curve(lambda _: ms, BATCHES, -0.2, 0.2)
    assert cross(RUN, ANSWER, curve).kind == kind
    assert standing_of(speed_up(ANSWER, curve, 64)) == standing
