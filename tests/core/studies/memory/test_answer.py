"""The answer of a memory study, in numbers and in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.studies.memory.answer import memory_answer, predict_memory, wilson_interval, wrong_fits
from core.workload.spec import MAX_BATCH, Target, Workload
from simulated.memories import BASELINE, GB, linear, make_memory_study, make_probe

TRUTH = linear(30e6, 50e3)  # 2 GB hold 26,400 samples of it
MLP = Workload(network="784-512-512-10")


def test_confirmed_refused_curve_and_parts() -> None:
    study = make_memory_study(TRUTH, (64, 26_000, 27_000))
    answer = memory_answer(study)
    assert (answer.confirmed, answer.refused) == (26_000, 27_000)
    assert "Batch 26,000 fits within 2 GB on CPU and 27,000 ran out: measured." in answer.sentence
    assert [(p.batch, p.outcome) for p in answer.probes] == [
        (64, "measured"), (26_000, "measured"), (27_000, "out_of_memory"),
    ]  # fmt: skip
    assert answer.probes[2].peak_bytes is None
    assert answer.curve[0].batch == 1
    assert answer.curve[-1].batch == MAX_BATCH
    assert all(point.low_bytes < point.peak_bytes < point.high_bytes for point in answer.curve)
    near = min(answer.curve, key=lambda point: abs(point.batch - 26_000))
    assert near.peak_bytes == pytest.approx(BASELINE + TRUTH(MLP, near.batch), rel=0.08)
    assert answer.context_bytes == BASELINE
    assert answer.parts_batch == 26_000
    assert answer.parts.weights_bytes == 4 * MLP.network.parameters


def test_the_prediction_is_of_before_the_study() -> None:
    study = make_memory_study(TRUTH, (64, 26_000, 27_000))
    earlier = make_memory_study(TRUTH, (64, 1000), created_at="2026-01-04T09:00:00+00:00")
    assert memory_answer(study, [study]).prediction == memory_answer(study).prediction
    with_one = memory_answer(study, [study, earlier])
    assert with_one.prediction == predict_memory(MLP, Target(), 2 * GB, [earlier], study.environment)
    assert "2 measured peaks" in with_one.prediction.basis
    assert "the model alone" in memory_answer(study).prediction.basis
    before, after = (answer.prediction.curve for answer in (memory_answer(study), with_one))
    wide, narrow = (next(point for point in curve if point.batch >= 1000) for curve in (before, after))
    assert narrow.high_bytes - narrow.low_bytes < 0.9 * (wide.high_bytes - wide.low_bytes)


@pytest.mark.parametrize(
    ("batches", "limit", "words"),
    [
        ((MAX_BATCH,), 9 * GB, "All batches up to 65,536 fit within 9 GB on CPU: measured."),
        ((1,), GB // 2 + BASELINE // 5, "Not even batch 1 fits within 630 MB on CPU"),
        (
            (26_399, 26_400, 26_401),
            2 * GB,
            "Batch 26,400 is the largest that fits within 2 GB on CPU: measured; 26,401",
        ),
        ((1000,), 2 * GB, "Batch 1,000 fits within 2 GB on CPU: measured. Predicted from there, "),
        ((1000, 40_000), 2 * GB, "More time would bring the two closer."),
    ],
)
def test_sentences(batches: tuple[int, ...], limit: int, words: str) -> None:
    assert words in memory_answer(make_memory_study(TRUTH, batches, limit_bytes=limit)).sentence


def test_a_batch_too_slow_is_said() -> None:
    study = make_memory_study(TRUTH, (1000,))
    slow = make_probe(9000, None, outcome="hung", reason="No answer.")
    sentence = memory_answer(study.model_copy(update={"probes": (*study.probes, slow)})).sentence
    assert "Batch 9,000 was" in sentence
    assert "ran out" not in sentence


def test_a_fit_above_a_batch_that_ran_out_is_not_confirmed() -> None:
    study = make_memory_study(TRUTH, (100, 5000))
    mixed = study.model_copy(update={"probes": (*study.probes, make_probe(3000, None))})
    answer = memory_answer(mixed)
    assert (answer.confirmed, answer.refused) == (100, 3000)


def test_predictions_in_words() -> None:
    assert "fit within 90" in predict_memory(MLP, Target(), 90 * GB).sentence
    assert "not even batch" in predict_memory(MLP, Target(), GB // 2).sentence
    some = predict_memory(MLP, Target(), GB)
    assert f"batch {some.largest.batch:,} is the largest" in some.sentence
    assert some.parts_batch == some.largest.batch
    total = some.context_bytes + some.parts.total_bytes
    assert total == pytest.approx(GB, rel=0.01)


def test_the_rate_of_wrong_fits_counts_tested_claims_only() -> None:
    told = (
        make_probe(1, GB), make_probe(2, GB), make_probe(3, None), make_probe(4, None, predicted_fits=False),
        make_probe(5, GB, predicted_fits=False), make_probe(6, None, outcome="hung"),
    )  # fmt: skip
    study = make_memory_study(TRUTH, ())
    rate = wrong_fits([study.model_copy(update={"probes": told[:3]}), study.model_copy(update={"probes": told[3:]})])
    assert (rate.n_predicted_fits, rate.n_ran_out) == (3, 1)
    assert rate.rate == pytest.approx(1 / 3)
    assert rate.low < 1 / 3 < rate.high
    assert "33 % (95" in rate.sentence
    none = wrong_fits([study])
    assert (none.n_predicted_fits, none.rate, none.low) == (0, None, None)


def test_wilsons_interval_at_published_values() -> None:
    """Compare with Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for k, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson_interval(k, n) == pytest.approx((low, high), abs=5e-5)


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilsons_interval_holds_what_was_seen(n: int, share: float) -> None:
    k = round(share * n)
    low, high = wilson_interval(k, n)
    assert 0 <= low <= k / n + 1e-12
    assert k / n - 1e-12 <= high <= 1
