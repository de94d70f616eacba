"""Verdicts on points whose truth is known, one test for each kind and reason."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rounds.answer.analyse import analyse, compare
from core.rounds.run import Run
from tests.support.points import run_of


def crossing_at(center: float, steepness: float = 0.3):
    """Return t_first / t_second that rises through 1 at ``center``, with ``steepness`` in log per octave."""
    return lambda batch: math.exp(steepness * math.log2(batch / center))


def test_a_clear_crossover() -> None:
    verdict = analyse(run_of(crossing_at(11.0))).verdict
    assert verdict.kind == "crossover"
    assert verdict.reason == "sign_change"
    assert verdict.ahead is None
    (found,) = verdict.crossovers
    assert found.low < 11.0 < found.high
    assert found.high / found.low < 1.1
    assert found.ahead_after == "second"
    assert "Second is faster from batch 11, 95 % interval" in verdict.sentence
    assert "Below that first is faster." in verdict.sentence


def test_the_lead_starts_where_the_margin_is_reached() -> None:
    verdict = analyse(run_of(crossing_at(11.0), noise=0.003), margin=0.05).verdict
    lead = verdict.lead
    assert lead.target == "second"
    truth = 11.0 * 2 ** (math.log(1.05) / 0.3)
    assert lead.low < truth < lead.high
    assert lead.from_batch == pytest.approx(truth, rel=0.03)


def test_crossing_the_other_way() -> None:
    verdict = analyse(run_of(lambda b: 1 / crossing_at(11.0)(b))).verdict
    assert verdict.crossovers[0].ahead_after == "first"
    assert verdict.lead.target == "first"


def test_every_sign_change_is_found() -> None:
    verdict = analyse(run_of(lambda b: math.exp(0.5 * math.cos(math.log2(b) * math.pi / 3)))).verdict
    assert [c.ahead_after for c in verdict.crossovers] == ["first", "second"]
    assert [c.batch for c in verdict.crossovers] == pytest.approx([2**1.5, 2**4.5], rel=0.05)
    assert re.search(
        r"First is faster from batch 2.*; then second is .*\. Below batch 2.* second is faster\.$", verdict.sentence
    )


@pytest.mark.parametrize(("ratio", "winner"), [(1.3, "second"), (0.8, "first")])
def test_ahead_throughout(ratio: float, winner: str) -> None:
    verdict = analyse(run_of(lambda _: ratio)).verdict
    assert (verdict.kind, verdict.ahead, verdict.reason) == ("ahead", winner, "ahead_throughout")
    assert verdict.lead.from_batch == 1.0
    times = r"\d\.\d+× \((95 % interval )?\d\.\d+ to \d\.\d+\) at batch"
    said = (
        rf"{winner.title()} is faster at every batch size measured: {times} 1, {times} 64; no crossover in this range\."
    )
    assert re.fullmatch(said, verdict.sentence)


def test_one_batch_size_has_no_range() -> None:
    sentence = analyse(run_of(lambda _: 1.3, batches=(8,))).verdict.sentence
    assert re.fullmatch(r".*1\.3\d*× .*batch 8\.", sentence)


def test_the_next_batch_is_where_the_lead_shrinks() -> None:
    shrinking = analyse(run_of(lambda b: 2.0 * b**-0.1)).verdict
    assert (shrinking.kind, shrinking.next_batch) == ("ahead", 128)
    growing = analyse(run_of(lambda b: 1.2 * b**0.1, batches=(8, 16, 32))).verdict
    assert (growing.kind, growing.next_batch) == ("ahead", 4)


def test_a_tie_is_equivalence_not_ignorance() -> None:
    assert analyse(run_of(lambda _: 1.0, rounds=20)).verdict.kind == "tie"
    noisy = analyse(run_of(lambda _: 1.0, noise=0.1)).verdict
    assert (noisy.kind, noisy.reason) == ("inconclusive", "straddles")


def test_open_at_the_end_of_the_range() -> None:
    verdict = analyse(run_of(lambda b: 1.0 if b == 64 else 0.7, noise=0.05)).verdict
    assert (verdict.kind, verdict.reason, verdict.next_batch) == ("inconclusive", "straddles_at_largest", 128)
    verdict = analyse(run_of(lambda b: 1.0 if b == 8 else 0.7, batches=(8, 16, 32, 64), noise=0.05)).verdict
    assert (verdict.reason, verdict.next_batch) == ("straddles_at_smallest", 4)


def test_a_weak_sign_change_is_not_a_crossover() -> None:
    verdict = analyse(run_of(lambda b: 0.97 if b < 8 else 1.03, batches=(4, 16), noise=0.028, rounds=6, seed=3)).verdict
    assert verdict.kind == "inconclusive"


def test_processes_that_disagree_are_an_unstable_machine() -> None:
    run = run_of(crossing_at(8.0, 0.02), processes=4, process_noise=0.4, rounds=4)
    verdict = analyse(run).verdict
    assert (verdict.kind, verdict.reason) == ("inconclusive", "unstable_machine")
    assert "unstable_machine" in {w.code for w in verdict.warnings}


def test_single_values_give_a_crossover_without_an_interval() -> None:
    verdict = analyse(run_of(crossing_at(11.0), processes=1, rounds=1, noise=0.0)).verdict
    (found,) = verdict.crossovers
    assert (found.low, found.high) == (None, None)
    assert found.batch == pytest.approx(11.0, rel=1e-6)
    assert (verdict.lead.low, verdict.lead.high) == (None, None)
    assert verdict.reason == "sign_change_without_replicates"
    assert "no_replicates" in {w.code for w in verdict.warnings}
    assert not verdict.has_interval
    assert "one value per" in verdict.sentence
    assert "to batch 8 " in verdict.sentence
    assert "from batch 16" in verdict.sentence


def test_one_batch_alone() -> None:
    assert analyse(run_of(lambda _: 2.0, batches=(8,))).verdict.kind == "ahead"


def test_no_common_batch() -> None:
    run = run_of(lambda _: 2.0)
    halves = tuple(r.model_copy(update={"blocks": r.blocks[r.batch % 2 :][:1]}) for r in run.rounds)
    verdict = analyse(run.model_copy(update={"rounds": halves})).verdict
    assert (verdict.kind, verdict.reason) == ("inconclusive", "no_common_batch")


def test_a_run_without_rounds_has_no_answer() -> None:
    with pytest.raises(ValueError, match="no measured round"):
        analyse(run_of(lambda _: 1.0).model_copy(update={"rounds": ()}))


def test_swapping_the_targets_mirrors_the_verdict() -> None:
    run = run_of(crossing_at(11.0), processes=4, rounds=3, process_noise=0.02)

    def swapped(run: Run) -> Run:
        rounds = tuple(
            r.model_copy(update={"blocks": tuple(b.model_copy(update={"target": 1 - b.target}) for b in r.blocks)})
            for r in run.rounds
        )
        return run.model_copy(update={"rounds": rounds, "target_names": ("second", "first")})

    here, there = compare(run)[0], compare(swapped(run))[0]
    assert here.crossovers[0].ahead_after == there.crossovers[0].ahead_after
    assert there.crossovers[0].batch == pytest.approx(here.crossovers[0].batch)
    assert there.crossovers[0].low == pytest.approx(here.crossovers[0].low)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    st.floats(0.5, 100.0),
)
def test_any_data_gives_an_ordered_honest_verdict(
    seed: int, processes: int, passes: int, rounds: int, noise: float, center: float
) -> None:
    run = run_of(
        crossing_at(center),
        processes=processes,
        passes=passes,
        rounds=rounds,
        noise=noise,
        process_noise=noise,
        seed=seed,
    )
    answer = analyse(run)
    verdict = answer.verdict
    for found in verdict.crossovers:
        assert 1 <= found.batch <= 64
        assert (found.low is None) == (found.high is None)
        if found.low is not None:
            assert 1 <= found.low <= found.batch <= found.high <= 64
    assert (verdict.kind == "crossover") == bool(verdict.crossovers)
    assert (verdict.kind == "ahead") == (verdict.ahead is not None)
    assert verdict.sentence.endswith(".")
    for speed in answer.speed_ups:
        if speed.low is not None:
            assert speed.low <= speed.ratio <= speed.high
    for cell in answer.cells:
        if cell.low_ms is not None:
            assert cell.low_ms <= cell.step_ms <= cell.high_ms


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_fewer_than_three_starts_allow_for_what_they_cannot_see(starts: int) -> None:
    verdict = analyse(run_of(crossing_at(11.0), processes=starts, passes=6, noise=0.003)).verdict
    (found,) = verdict.crossovers
    # t × 6 % / √starts at 0.3 per octave is about half an octave each way
    assert (found.high / found.low > 1.9) == (starts < 3)
    assert ("few_replicates" in {w.code for w in verdict.warnings}) == (starts < 3)


def test_a_batch_of_one_start_carries_the_allowance_and_the_scatter_between_starts() -> None:
    run = run_of(crossing_at(8.0), processes=5, rounds=4, process_noise=0.03, seed=4)
    kept = tuple(r for r in run.rounds if r.batch in (4, 8, 16) or r.blocks[0].process == 0)
    answer = analyse(run.model_copy(update={"rounds": kept}))
    widths = {s.batch: np.log(s.high / s.low) for s in answer.speed_ups}
    assert widths[64] > 1.5 * widths[8]
    assert math.isfinite(widths[64])


def test_the_bend_between_coarse_batches_is_in_the_interval() -> None:
    # log-ratio −0.4 + 0.1·(octaves/2)²: a straight line between batches 8 and 64 misses its zero at batch 16
    verdict = analyse(
        run_of(lambda b: math.exp(-0.4 + 0.1 * (math.log2(b) / 2) ** 2), (1, 8, 64, 512), noise=0.001)
    ).verdict
    (found,) = verdict.crossovers
    assert abs(math.log2(found.batch / 16)) > 0.05
    assert found.low <= 16 <= found.high
