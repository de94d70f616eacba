"""The answer of a pipeline study, on experiments whose truth is known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.studies.experiment.record import Arm
from core.studies.pipeline.answer import pipeline_answer
from core.studies.pipeline.input_share import MODERATE, Share, starvation
from core.workload.spec import Pipeline
from simulated.pipelines import RESIDENT_MS, make_pipeline_experiment, make_study, true_step_ms


def share(value: float, half: float = 0.01) -> Share:
    return Share(value, value - half, value + half)


def test_shares_are_found_with_intervals_that_hold_the_truth() -> None:
    experiment = make_pipeline_experiment(seed=3)
    answer = pipeline_answer(experiment)
    held = 0
    for fed in answer.fed[1:]:
        truth = 1 - RESIDENT_MS / true_step_ms(experiment.arms[fed.arm])
        assert fed.share.high is not None
        assert fed.share.value == pytest.approx(truth, abs=0.03)
        held += fed.share.low <= truth <= fed.share.high
    assert held >= len(answer.fed) - 3  # 95 % intervals: one or two of thirteen may miss
    assert answer.of("resident").share is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ({}, "Not input-bound (95 %: at most "),
        ({"noise": 0.3}, "too wide to say that the pipeline as chosen keeps up"),
    ],
)
def test_a_pipeline_that_keeps_up_is_none_beyond_noise(noise: dict[str, float], words: str) -> None:
    answer = pipeline_answer(make_pipeline_experiment(seed=1, **noise))
    assert words in answer.sentence
    assert answer.of("base").share.level == "none"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("slower", "words"),
    [(1.03, "Not input-bound: "), (1.12, "Moderately input-bound: "), (1.7, "Highly input-bound: ")],
)
def test_the_verdict_uses_xprofs_words(slower: float, words: str) -> None:
    def truth(arm: Arm) -> float:
        return RESIDENT_MS * (slower if arm.code == "base" else 1.0)

    answer = pipeline_answer(make_pipeline_experiment(noise=0.0005, truth=truth))
    assert answer.sentence.startswith(words)
    assert f"{100 - 100 / slower:.0f} % (95 %: " in answer.sentence


def test_prefetch_stops_helping_where_the_truth_says() -> None:
    answer = pipeline_answer(make_pipeline_experiment(seed=2)).prefetch
    assert answer.enough == "2"
    off_ms, best_ms = (true_step_ms(arm) for arm in make_study().arms[3:6:2])
    assert answer.gain.value == pytest.approx(off_ms / best_ms, rel=0.03)


@pytest.mark.parametrize(
    ("factors", "options", "enough", "words"),
    [
        ({}, {}, "off", "does not help"),
        ({"base": 2 / 3}, {}, "AUTOTUNE", "the other settings are slower"),
        (
            {"prefetch-0": 1.05, "prefetch-1": 1.015},
            {"noise": 0.0002, "rounds": 10},
            "1",
            "Prefetch stops helping at 1",
        ),
    ],
    ids=["no gain", "none other reaches it", "within two percent of the best is as good"],
)
def test_the_smallest_prefetch_that_is_enough(
    factors: dict[str, float], options: dict[str, float], enough: str, words: str
) -> None:
    made = make_pipeline_experiment(truth=lambda arm: 3.0 * factors.get(arm.code, 1.0), **options)
    answer = pipeline_answer(made).prefetch
    assert answer.enough == enough
    assert words in answer.sentence


def test_a_gain_within_the_noise_is_neither_claimed_nor_denied() -> None:
    def truth(arm: Arm) -> float:
        return 3.0 * (1.1 if arm.code == "prefetch-0" else 1.0)

    answer = pipeline_answer(make_pipeline_experiment(seed=1, truth=truth, noise=0.2)).prefetch
    assert answer.gain.value > 1.02
    assert answer.gain.low < 1
    assert answer.sentence.startswith("Not clear whether")


def test_the_device_starves_where_feeding_outlasts_the_step() -> None:
    # feeding takes 64 × (2 + cost / 2) µs; it exceeds 5 % of a 2 ms step from 62 µs per sample on
    answer = pipeline_answer(make_pipeline_experiment(seed=4)).starvation
    assert (answer.kind, answer.low_us, answer.high_us) == ("from", 50.0, 100.0)
    assert answer.cost_us == pytest.approx(62.0, abs=12.0)
    assert "at 100 µs" in answer.sentence


def test_starvation_is_interpolated_in_the_logarithm_of_the_cost() -> None:
    found = starvation([(10.0, share(0.0)), (1000.0, share(0.10))])
    assert found.cost_us == pytest.approx(100.0)
    from_zero = starvation([(0.0, share(0.0)), (50.0, share(0.10))])
    assert from_zero.cost_us == pytest.approx(25.0)


def test_starvation_at_once_never_or_not_to_be_told() -> None:
    assert starvation([(0.0, share(0.3)), (50.0, share(0.5))]).kind == "always"
    never = starvation([(0.0, share(0.0)), (50.0, share(0.055))])
    assert (never.kind, never.high_us) == ("never", 50.0)
    assert starvation([(0.0, Share(0.5, None, None))]).kind == "unknown"


def test_a_single_odd_cost_below_is_no_starvation() -> None:
    found = starvation([(0.0, share(0.2)), (50.0, share(0.0)), (100.0, share(0.3))])
    assert (found.low_us, found.high_us) == (50.0, 100.0)


@given(st.lists(st.floats(-0.2, 0.95), min_size=2, max_size=6), st.floats(0.0, 0.1))
def test_the_starving_cost_lies_in_its_bracket(values: list[float], half: float) -> None:
    costs = [0.0, 20.0, 50.0, 100.0, 200.0, 500.0]
    found = starvation([(cost, share(value, half)) for cost, value in zip(costs, sorted(values), strict=False)])
    if found.kind == "from":
        assert found.low_us <= found.cost_us <= found.high_us
        assert math.isfinite(found.cost_us)


@given(st.floats(-1.0, 1.0), st.floats(0.0, 0.5))
def test_what_is_shown_of_a_share_is_a_share(value: float, half: float) -> None:
    shown, low, high = share(value, half).shown
    assert 0 <= low <= shown <= high
    assert share(value, half).starves == (value - half > MODERATE)


def test_too_few_rounds_for_an_interval_claim_nothing() -> None:
    answer = pipeline_answer(make_pipeline_experiment(processes=1, rounds=2))
    assert answer.sentence == "Whether the input keeps up is not clear: too few rounds for an interval."
    assert not [fed for fed in answer.fed if fed.share is not None and "%" in fed.share.words]
    assert answer.prefetch.sentence.startswith("Too few rounds")
    assert answer.starvation.kind == "unknown"


def test_an_arm_that_failed_is_missing_with_its_reason() -> None:
    answer = pipeline_answer(make_pipeline_experiment(failed={"cost-500": "It ran out of memory."}))
    assert [(one.code, one.outcome) for one in answer.missing] == [("cost-500", "out_of_memory")]
    assert answer.starvation.high_us == 100.0


def test_without_the_base_or_the_resident_arm_the_verdict_says_so() -> None:
    base = pipeline_answer(make_pipeline_experiment(failed={"base": "The worker crashed."}))
    assert "could not be" in base.sentence
    resident = pipeline_answer(make_pipeline_experiment(failed={"resident": "No room."}))
    assert "resident data" in resident.sentence
    assert all(fed.share is None for fed in resident.fed)
    assert resident.prefetch is not None
    assert resident.starvation is None


def test_other_experiments_and_empty_ones_are_refused_with_a_sentence() -> None:
    made = make_pipeline_experiment()
    with pytest.raises(ValueError, match="no pipeline study"):
        pipeline_answer(made.model_copy(update={"arms": made.arms[1:]}))
    with pytest.raises(ValueError, match="Nothing was measured"):
        pipeline_answer(made.model_copy(update={"rounds": ()}))


def test_an_arm_not_reached_says_so() -> None:
    answer = pipeline_answer(make_pipeline_experiment(failed={"calls-1": "x"}, outcomes=()))
    assert answer.missing[0].outcome == "pending"


def test_a_base_without_work_has_no_family_of_calls() -> None:
    experiment = make_pipeline_experiment(base=Pipeline(kind="tfdata", prefetch=1))
    answer = pipeline_answer(experiment)
    assert answer.family(experiment.arms, "calls") == ()
    assert [fed.code for fed in answer.family(experiment.arms, "cost")] == [
        "base", "cost-50", "cost-100", "cost-200", "cost-500",
    ]  # fmt: skip
