"""Bands of the fastest target: right on points whose truth is known, and wrong in at most 5 of 100 sweeps."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchmarks.bands import judged
from core.base.evidence import Block, Process
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Fit
from core.rounds.answer.fastest import fastest
from core.rounds.answer.verdict import sample_line
from core.rounds.run import Cell, Round, Run
from core.rounds.show.export import verdict_data, verdict_text
from simulated.simulation import Curve
from simulated.truths import TRUTHS, true_changes, wrong

BATCHES = tuple(2**i for i in range(9))
CPU, GPU, MIXED = Curve(0.2, 0.02), Curve(0.6, 0.004), Curve(0.7, 0.001)
NAMES = ("cpu", "gpu:0", "gpu:0,precision=mixed_float16")


def run_of(
    curves: Sequence[Curve],
    names: tuple[str, ...] = NAMES,
    processes: int = 5,
    rounds: int = 3,
    noise: float = 0.01,
    has: Callable[[int, int], bool] = lambda *_: True,
    seed: int = 0,
) -> Run:
    """Return rounds of targets with these curves; ``has(target, batch)`` is True if it has a block there."""
    rng, found = np.random.default_rng(seed), []
    for process in range(processes):
        offsets = rng.normal(0, noise, len(curves))
        for batch in BATCHES:
            for _ in range(rounds):
                logs = offsets + rng.normal(0, noise, len(curves))
                blocks = tuple(
                    Block(target=t, process=process, steps=1, step_ms=curve.step_ms(batch) * math.exp(logs[t]))
                    for t, curve in enumerate(curves)
                    if has(t, batch)
                )
                found.append(Round(index=len(found), pass_index=process, batch=batch, blocks=blocks))
    started = tuple(
        Process(index=p, target=t, pid=1, startup_ms=1.0, device="cpu")
        for p in range(processes)
        for t in range(len(curves))
    )
    return Run(
        id="test-0001", name="points", created_at="2026-01-01T00:00:00+00:00", label="recorded", status="finished",
        target_names=names[: len(curves)], processes=started, rounds=tuple(found),
    )  # fmt: skip


def test_each_target_is_the_fastest_in_its_band() -> None:
    curves = (CPU, GPU, MIXED)
    found = fastest(run_of(curves))
    assert [band.targets for band in found.bands] == [(0,), (1,), (2,)]
    assert (found.bands[0].from_batch, found.bands[-1].to_batch) == (1.0, 256.0)
    assert [(b.before, b.after) for b in found.boundaries] == [((0,), (1,)), ((1,), (2,))]
    for boundary, truth in zip(found.boundaries, true_changes(curves), strict=True):
        assert boundary.low < truth < boundary.high
        assert boundary.low < boundary.batch < boundary.high < 1.4 * boundary.low
    assert [band.to_batch for band in found.bands[:-1]] == [boundary.batch for boundary in found.boundaries]
    assert wrong(found, curves) == ()


def test_a_boundary_that_misses_the_truth_is_called_wrong() -> None:
    curves = (CPU, GPU, MIXED)
    found = fastest(run_of(curves))
    first = found.boundaries[0]
    shifted = dataclasses.replace(first, low=1.5 * first.low, high=1.5 * first.high)
    assert len(wrong(dataclasses.replace(found, boundaries=(shifted, *found.boundaries[1:])), curves)) == 1
    swapped = dataclasses.replace(found.bands[2], targets=(1,))
    assert len(wrong(dataclasses.replace(found, bands=(*found.bands[:2], swapped)), curves)) == 1


def test_targets_that_are_alike_share_a_band_whose_boundary_still_has_its_interval() -> None:
    curves = (CPU, GPU, GPU)
    answer = analyse(run_of(curves, noise=0.01))
    assert [band.targets for band in answer.fastest.bands] == [(0,), (1, 2)]
    (boundary,) = answer.fastest.boundaries
    (truth,) = true_changes(curves)
    assert boundary.low < truth < boundary.high
    assert answer.verdict.reason == "bands_in_part"


def test_a_tie_is_equivalence_not_ignorance() -> None:
    level = analyse(run_of((GPU, GPU, GPU), noise=0.003))
    assert [(band.targets, band.level) for band in level.fastest.bands] == [((0, 1, 2), True)]
    assert (level.verdict.kind, level.verdict.reason) == ("fastest", "within_margin")
    assert "within 5 %" in level.verdict.sentence
    noisy = analyse(run_of((GPU, GPU, GPU), noise=0.1))
    assert [(band.targets, band.level) for band in noisy.fastest.bands] == [((0, 1, 2), False)]
    assert "is the fastest" in noisy.verdict.sentence


def test_evidence_that_ends_within_the_range_gives_no_interval() -> None:
    close = Curve(0.6, 0.004)
    found = fastest(run_of((CPU, GPU, close), has=lambda t, b: t < 2 or b <= 16))
    assert found.bands[-1].targets == (1, 2), "the third was not measured there, so nothing is known of it"
    assert all((b.low is None) == bool(set(b.before) & set(b.after)) for b in found.boundaries)


def test_a_target_that_failed_is_not_the_fastest_above() -> None:
    run = run_of((CPU, GPU, MIXED), has=lambda t, b: t < 2 or b <= 128)
    unknown, failed = fastest(run), Cell(target=2, batch=256, outcome="out_of_memory", reason="No memory.")
    assert unknown.bands[-1].targets != (1,)
    found = fastest(run.model_copy(update={"cells": (failed,)}))
    assert found.bands[-1].targets == (1,)
    assert 128 <= found.boundaries[-1].low < found.boundaries[-1].high <= 256


def test_nothing_is_claimed_without_replicates() -> None:
    answer = analyse(run_of((CPU, GPU, MIXED), processes=1, rounds=1, noise=0.0))
    assert [band.targets for band in answer.fastest.bands] == [(0,), (1,), (2,)]
    assert [(b.low, b.high) for b in answer.fastest.boundaries] == [(None, None)] * 2
    assert answer.verdict.reason == "bands_without_replicates"
    assert "one value per" in answer.verdict.sentence
    assert not answer.verdict.has_interval


def test_the_sentence_reads_as_a_person_would_say_it() -> None:
    answer = analyse(run_of((CPU, GPU, MIXED)))
    first, second = answer.fastest.boundaries
    assert answer.verdict.sentence == (
        f"CPU is the fastest up to batch {first.batch:.0f} (95 % interval {first.low:.0f} to {first.high:.0f}); "
        f"GPU 0 from {first.batch:.0f} to {second.batch:.0f} ({second.low:.0f} to {second.high:.0f}); "
        f"GPU 0, mixed precision from {second.batch:.0f} on."
    )
    assert (answer.verdict.kind, answer.verdict.reason, answer.verdict.ahead) == ("fastest", "bands", None)
    assert answer.verdict.targets == NAMES
    assert analyse(run_of((CPU, Curve(0.3, 0.03), Curve(0.4, 0.04)))).verdict.ahead == "cpu"


def test_each_is_compared_with_the_baseline_as_two_alone_are() -> None:
    three, two = analyse(run_of((CPU, GPU, MIXED))), analyse(run_of((CPU, GPU)))
    assert [one.target for one in three.against] == [1, 2]
    assert three.against[0].verdict.kind == two.verdict.kind == "crossover"
    assert len({w.code for w in three.verdict.warnings}) == len(three.verdict.warnings)


def test_json_of_three_and_of_one() -> None:
    run = run_of((CPU, GPU, MIXED))
    data = verdict_data(run, analyse(run))
    assert list(data) == [
        "verdict", "targets", "reason", "claims", "machine", "warnings", "next_batch", "fastest", "boundaries",
        "against_baseline", "ran_as",
    ]  # fmt: skip
    assert data["fastest"][1].keys() == {"from_batch", "to_batch", "targets"}
    assert data["fastest"][1]["targets"] == ["gpu:0"]
    assert data["boundaries"][0].keys() == {"batch", "low", "high", "before", "after"}
    assert [one["verdict"] for one in data["against_baseline"]] == ["crossover", "crossover"]
    assert len(data["ran_as"]) == 3
    alone = run_of((CPU,))
    data = verdict_data(alone, analyse(alone))
    assert data["verdict"] == "single"
    assert data["floor_ms"]["low"] < 0.2 < data["floor_ms"]["high"]
    assert data["slope_ms"]["low"] < 0.02 < data["slope_ms"]["high"]
    assert [share["batch"] for share in data["overhead_share"]] == list(BATCHES)


def test_text_has_the_bands_and_the_table_against_the_baseline() -> None:
    run = run_of((CPU, GPU, MIXED))
    lines = verdict_text(run, analyse(run)).splitlines()
    assert lines[0] == analyse(run).verdict.sentence
    assert [line.split(" is the fastest")[0] for line in lines[2:5]] == ["CPU", "GPU 0", "GPU 0, mixed precision"]
    assert lines[6].startswith("against CPU")
    assert len([line for line in lines if line.endswith("  measured")]) == 27


def test_one_target_has_floor_slope_and_share_or_no_claim() -> None:
    answer = analyse(run_of((CPU,)))
    assert (answer.verdict.kind, answer.verdict.reason) == ("single", "floor_and_slope")
    assert "cost of 0.2" in answer.verdict.sentence
    assert "95 % interval" in answer.verdict.sentence
    assert "batch 256 (" in sample_line(answer)
    run = run_of((CPU,))
    few = run.model_copy(update={"rounds": tuple(item for item in run.rounds if item.batch <= 2)})
    assert analyse(few).verdict.reason == "too_few_batches"
    assert "interval" not in analyse(few).verdict.sentence
    assert sample_line(analyse(few)) == ""


@pytest.mark.parametrize("q", [1.0, 2.0, 4.0])
def test_the_overhead_share_has_the_bounds_of_the_half_overhead_batch(q: float) -> None:
    half = 0.5 / 0.01 / (2**q - 1) ** (1 / q)
    fit = Fit(0, 0.5, 0.4, 0.6, 0.01, 0.009, 0.011, q, half, half / 1.2, half * 1.2, 0.01, True)
    assert fit.overhead_share(half) == pytest.approx(0.5)
    low, high = fit.overhead_bounds(half)
    assert low < 0.5 < high
    assert fit.overhead_bounds(half / 1.2)[0] == pytest.approx(0.5)
    assert dataclasses.replace(fit, half_overhead_low=None).overhead_bounds(half) is None


@pytest.mark.parametrize("targets", [3, 6])
@pytest.mark.parametrize("truth", TRUTHS)
def test_whole_answers_are_right_few(truth: str, targets: int) -> None:
    assert judged(truth, targets, 6).right >= 5 / 6


@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("truth", ["changes far apart", "changes close together", "others slower throughout"])
def test_whole_answers_are_right_in_95_of_100_sweeps(truth: str) -> None:
    row = judged(truth, 3, 1000)
    assert row.right >= 0.93
    assert row.boundaries > 0.9


@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("truth", ["all equal", "one change, then equal", "near ties of 1 %", "unlike machines"])
def test_ties_are_no_more_often_wrong(truth: str) -> None:
    assert judged(truth, 3, 500).right >= 0.94
