"""Two targets at once: the best split of a batch and the bound on its gain, against curves whose truth is known."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from core.figures.style import words_of
from core.rounds.answer.analyse import analyse
from core.rounds.answer.split import Together, pairs_of, split_lines, together
from core.rounds.run import Run
from core.rounds.show.export import verdict_data, verdict_text
from core.rounds.show.split_figure import split_figure
from core.workload.spec import Target, Workload
from simulated.runs import make_run, on_card, planned
from simulated.simulation import Curve, Machine, NoiseModel, random_curves
from simulated.sweeps import plan, sweep

MANY = (pytest.mark.statistical, pytest.mark.timeout(1800))
TEN_TIMES = (Curve(0.3, 0.02), Curve(0.9, 0.002))
"""A GPU ten times faster per sample; the crossover is at 43."""
THIRTY_TIMES = (Curve(0.3, 0.02), Curve(0.9, 0.02 / 30))


def run_of(curves: Sequence[Curve], noise: float = 0.0, **made: object) -> Run:
    """Return a run of a CPU and a GPU with these curves."""
    floors, slopes = zip(*((curve.floor_ms, curve.slope_ms) for curve in curves), strict=True)
    run = make_run(3, floors_ms=floors, slopes_ms=slopes, noise=noise, **made)
    return on_card(run, targets=(Target(), Target(device="gpu:0")))


def truth(curves: Sequence[Curve], batch: int, least: int = 1) -> tuple[float, float]:
    """Return the speed-ups of the best split and of halves over the faster curve alone, by trying every split."""
    sizes = np.arange(1, batch + 1)
    one, other = (np.vectorize(curve.step_ms)(sizes) for curve in curves)
    alone, last = min(one[-1], other[-1]), batch - least
    best = np.maximum(one[least - 1 : last], other[least - 1 : last][::-1]).min()
    return max(1.0, alone / best), alone / max(one[batch - batch // 2 - 1], other[batch // 2 - 1])


def found_of(run: Run) -> Together:
    found = together(run)
    assert found is not None
    return found


@pytest.mark.parametrize("curves", [TEN_TIMES, THIRTY_TIMES, (Curve(0.5, 0.01), Curve(0.5, 0.01))])
def test_the_best_split_of_curves_without_noise_is_that_of_trying_all(curves: Sequence[Curve]) -> None:
    found = found_of(run_of(curves))
    assert [split.batch for split in found.splits] == [2**i for i in range(1, 11)]
    for split in found.splits:
        best, halves = truth(curves, split.batch)
        assert split.best.low / 1.003 <= best <= split.best.high * 1.003, "how far a curve bends is estimated, too"
        assert split.best.ratio == pytest.approx(best, rel=0.03)
        assert split.even.ratio == pytest.approx(halves, rel=1e-6)
        assert sum(split.samples) == split.batch
        alone = min(curve.step_ms(split.batch) for curve in curves)
        assert split.step_ms == pytest.approx(alone / split.best.ratio)


def test_a_gpu_ten_times_faster_gains_3_to_10_percent_above_the_crossover_and_nothing_below() -> None:
    found = found_of(run_of(TEN_TIMES, noise=0.01))
    at = {split.batch: split for split in found.splits}
    for batch in (2, 4, 8, 16, 32):
        assert (at[batch].best.ratio, at[batch].samples, at[batch].alone) == (1.0, (batch, 0), 0)
    assert all(1.03 < at[batch].best.ratio < 1.10 for batch in (512, 1024))
    assert 0.05 < at[1024].samples[0] / 1024 < 0.11
    assert 0.19 < min(split.even.ratio for split in found.splits) < 0.27, "halves cost up to 80 % of the throughput"
    assert at[1024].even.high < 0.3


def test_it_says_plainly_when_it_is_not_worth_it_when_it_may_be_and_when_that_is_not_clear() -> None:
    never = Curve(0.3, 0.02), Curve(0.2, 0.0002)
    worth, no, nothing = (split_lines(run, found_of(run)) for run in (
        run_of(TEN_TIMES, noise=0.005, processes=6), run_of(THIRTY_TIMES, noise=0.005, processes=6), run_of(never),
    ))  # fmt: skip
    assert worth[0].startswith("CPU and GPU 0 together could be at most ")
    assert "faster than GPU 0 alone (95 % interval " in worth[0]
    assert ") at batch 1,024 with " in worth[0]
    assert worth[1].startswith("Halves, as MirroredStrategy and DataParallel divide a batch, would take ")
    assert no[0].startswith("Not worth it: at no measured batch size (2 to 1,024) could CPU and GPU 0 together ")
    assert nothing[0].endswith(" be faster than the faster of them alone (95 %), before what synchronising costs.")
    noisy = run_of(TEN_TIMES, noise=0.2)
    lines = split_lines(noisy, found_of(noisy))
    assert lines[0].startswith("Not clear whether it is worth it: CPU and GPU 0 ")
    assert lines[-1].startswith("A sweep of batch sizes above the crossover alone, from 64 on, would narrow the ")
    assert not any("narrow" in line for line in (*worth, *no, *nothing))


def test_a_sweep_above_the_crossover_makes_it_clearer() -> None:
    widths = {}
    for batches, low in (("1:1024", 1), ("64:1024", 64)):
        run = sweep(Machine(TEN_TIMES, NoiseModel(), seed=1), plan(batches, budget_s=90.0))
        most = found_of(run).most
        assert most.low <= truth(TEN_TIMES, 1024, low)[0] <= most.high
        widths[batches] = most.high / most.low
    assert widths["64:1024"] < widths["1:1024"]
    assert widths["64:1024"] < 1.1


def test_without_replicates_nothing_is_claimed() -> None:
    run = run_of(TEN_TIMES, processes=1, passes=1, rounds_per_pass=1)
    found = found_of(run)
    assert not found.with_interval
    assert "Too few rounds" in split_lines(run, found)[0]


def test_parts_smaller_than_the_smallest_measured_batch_are_not_claimed() -> None:
    found = found_of(run_of(TEN_TIMES, batches=(64, 128, 256, 512, 1024)))
    assert [split.batch for split in found.splits] == [128, 256, 512, 1024]
    assert found.splits[0].best.ratio == 1.0
    assert all(min(split.samples) >= 64 for split in found.splits if split.best.ratio > 1)
    assert found.splits[-1].best.ratio == pytest.approx(truth(TEN_TIMES, 1024, 64)[0], rel=0.02)
    assert together(run_of(TEN_TIMES, batches=(64, 100))) is None


def test_only_a_cpu_and_other_hardware_that_one_program_drives_are_offered() -> None:
    cpu, gpu = Target(threads=1), Target(device="gpu:0")
    on_jax = Target(device="gpu:0", framework="jax")
    run = make_run(3, floors_ms=(0.3, 0.9, 0.8), slopes_ms=(0.02, 0.002, 0.001), noise=0.01)

    def offered(*targets: Target, **changes: object) -> tuple[tuple[int, int], ...]:
        return pairs_of(planned(run, targets=targets, **changes))

    assert pairs_of(run) == () == offered(cpu, Target(threads=2), Target(threads=1, execution="xla"))
    assert offered(gpu, Target(device="gpu:1"), on_jax) == ()
    assert offered(cpu, Target(device="gpu:0+1"), Target(device="cpu:2")) == ()
    assert offered(gpu, cpu, on_jax) == ((1, 0),)
    infer = Workload(network="784-128-10", mode="infer")
    assert offered(gpu, cpu, on_jax, workload=infer) == ((1, 0), (1, 2))
    assert offered(Target(precision="int8"), gpu, cpu, workload=infer) == ((2, 1),)
    assert found_of(planned(run, targets=(cpu, gpu, Target(device="gpu:0", execution="xla")))).targets == (0, 2)
    assert "together" not in verdict_data(run, analyse(run))


def test_the_verdict_in_json_and_in_text_and_the_picture_say_the_same() -> None:
    run = run_of(TEN_TIMES, noise=0.005, processes=6)
    found, data = found_of(run), verdict_data(run, analyse(run))["together"]
    assert data["targets"] == ["cpu", "gpu:0"]
    most = {"batch": 1024, "value": found.most.ratio, "low": found.most.low, "high": found.most.high}
    assert data["speed_up"] == most
    assert data["splits"][-1]["samples"] == list(found.splits[-1].samples)
    assert set(data["splits"][0]) == {"batch", "samples", "speed_up", "halves"}
    assert split_lines(run, found)[0] in verdict_text(run, analyse(run))
    figure = split_figure(run, found)
    best, halves = ([one for one in figure.data if one.name.startswith(name)][-1] for name in ("best", "halves"))
    assert list(best.y) == [split.best.ratio for split in found.splits]
    assert list(halves.y) == [split.even.ratio for split in found.splits]
    shares = [one for one in figure.data if one.yaxis == "y2"]
    assert [sum(each) for each in zip(*(one.y for one in shares), strict=True)] == pytest.approx([1.0] * 10)
    assert "A bound, predicted" in " ".join(words_of(figure).foot)


@cache
def _swept(seed: int) -> tuple[tuple[Curve, Curve], Together]:
    curves = random_curves(np.random.default_rng(seed))
    run = sweep(Machine(curves, NoiseModel(), seed=seed), plan(budget_s=(30.0, 60.0, 90.0)[seed % 3]))
    return curves, found_of(run)


@pytest.mark.parametrize(
    ("sweeps", "least"), [(4, 0.75), pytest.param(300, 0.95, marks=MANY)], ids=["few", "many"]
)  # fmt: skip
def test_the_intervals_hold_the_truth_in_95_of_100_sweeps(sweeps: int, least: float) -> None:
    """Check a random batch, the measured one nearest to the crossover, and the one with the largest gain."""
    held: dict[str, list[bool]] = {name: [] for name in ("best", "halves", "crossover", "most")}
    widths, rng = [], np.random.default_rng(0)
    for seed in range(sweeps):
        curves, found = _swept(seed)
        true = {split.batch: truth(curves, split.batch) for split in found.splits}
        meet = Machine(curves).true_crossover(1, 1024)
        assert meet is not None
        drawn = found.splits[int(rng.integers(len(found.splits)))]
        near = min(found.splits, key=lambda split: abs(math.log(split.batch / meet)))
        held["best"].append(drawn.best.low <= true[drawn.batch][0] * (1 + 1e-9) <= drawn.best.high * (1 + 2e-9))
        held["halves"].append(drawn.even.low <= true[drawn.batch][1] <= drawn.even.high)
        held["crossover"].append(near.best.low <= true[near.batch][0] <= near.best.high)
        held["most"].append(found.most.low <= max(best for best, _ in true.values()) <= found.most.high)
        widths.append(found.most.high / found.most.low)
    shares = {name: float(np.mean(flags)) for name, flags in held.items()}
    assert min(shares.values()) >= least, shares
    assert np.median(widths) < 1.7, "the machine drifts by 10 %"
