"""The prediction fitted to peaks: learnt copies, intervals that cover, and wide ones if little is known."""

import dataclasses
import math

import numpy as np
import pytest

from core.base.evidence import Environment, Gpu
from core.studies.memory.answer import predict_memory
from core.studies.memory.forecast import (
    USUAL_SD,
    _largest,
    context_bytes,
    fit_model,
    forecast,
    peaks,
    planned_bytes,
    same_machine,
)
from core.studies.memory.record import MemoryStudy
from core.workload.memory import CONTEXT_BYTES, USUAL, Copies, estimate_bytes
from core.workload.spec import MAX_BATCH, Target, Workload
from simulated.memories import BASELINE, GB, linear, make_memory_study, make_probe
from simulated.runs import make_environment

CPU = Target()
NETWORKS = ("784-512-512-10", "784-4096-4096-10", "784-1024x8-10", "784-256x32-10", "2000-64-10", "100-2048x4-10")
UNLIKE = dataclasses.replace(USUAL["graph"], model_bytes=60e6, layer_bytes=4e6, kept=1.4, passing=5.0, update=3.0)


def studies(copies: Copies, noise: float = 0.0, seed: int = 0) -> list[MemoryStudy]:
    """Return studies of every network, trained at several batches on a machine whose memory follows these copies."""

    def truth(workload: Workload, batch: int) -> float:
        return estimate_bytes(workload, CPU, batch, copies).total_bytes

    made = []
    for place, network in enumerate(NETWORKS):
        factor = math.exp(noise * np.random.default_rng(100 * seed + place).standard_normal())
        made.append(
            make_memory_study(
                lambda workload, batch, factor=factor: factor * truth(workload, batch),  # type: ignore[misc]
                (1, 512, 4096),
                network,
                limit_bytes=50 * GB,
            )
        )
    return made


def test_nothing_measured_leaves_the_usual_copies_and_their_spread() -> None:
    model = fit_model((), Workload(network=NETWORKS[0]), CPU)
    assert (model.copies, model.sd, model.workloads) == (USUAL["graph"], USUAL_SD, 0)


def test_many_studies_teach_the_machines_own_copies() -> None:
    workload = Workload(network="784-700x5-10", optimizer="momentum")
    ahead = forecast(workload, CPU, studies(UNLIKE))
    usual, found = USUAL["graph"], ahead.model.copies
    for name in ("model_bytes", "kept", "passing", "update"):
        assert getattr(usual, name) < getattr(found, name) < 1.3 * getattr(UNLIKE, name)
    assert ahead.model.sd < 0.85 * USUAL_SD
    assert (ahead.model.workloads, ahead.model.peaks, ahead.own) == (6, 18, ())
    for batch in (1, 256, 8192):
        true = BASELINE + estimate_bytes(workload, CPU, batch, UNLIKE).total_bytes
        before = forecast(workload, CPU, (), (make_probe(1, None),)).at(batch).bytes
        assert abs(ahead.at(batch).bytes / true - 1) < 0.5 * abs(before / true - 1)


def test_studies_of_another_mode_device_or_machine_teach_nothing() -> None:
    found = studies(UNLIKE)
    infer = Workload(network=NETWORKS[0], mode="infer")
    assert fit_model(peaks(found), infer, CPU).workloads == 0
    assert fit_model(peaks(found), Workload(network=NETWORKS[0]), Target(execution="xla")).workloads == 0
    assert fit_model(peaks(found), Workload(network=NETWORKS[0]), Target(device="gpu:0")).workloads == 0
    assert fit_model(peaks(found), Workload(network=NETWORKS[0]), Target(threads=1)).workloads == 6
    assert fit_model(peaks(found), Workload(network=NETWORKS[0]), Target(execution="graph")).workloads == 6
    assert fit_model(peaks(found), Workload(network=NETWORKS[0]), Target(execution="xla")).workloads == 0
    elsewhere = Environment(captured_at="2026-01-05T09:00:00+00:00", hostname_hash="another")
    assert same_machine(found, elsewhere) == ()
    assert len(same_machine(found, found[0].environment)) == len(found)


def test_intervals_hold_for_workloads_never_seen() -> None:
    """Let workloads differ by 12 % (one standard deviation) in what the model does not know."""
    held = total = 0
    for seed in range(5):
        made = studies(USUAL["graph"], noise=0.12, seed=seed)
        for left_out, own in enumerate(made):
            ahead = forecast(own.plan.workload, CPU, [one for i, one in enumerate(made) if i != left_out])
            probe = own.probes[-1]
            bounds = ahead.at(probe.batch)
            held += bounds.low <= probe.peak_bytes <= bounds.high
            total += 1
    assert 0.9 <= held / total <= 1


def test_own_peaks_settle_the_prediction_near_them_and_less_so_far_away() -> None:
    workload = Workload(network=NETWORKS[2])
    true = 1.4 * estimate_bytes(workload, CPU, 2048).total_bytes
    ahead = forecast(workload, CPU, (), (make_probe(2048, BASELINE + round(true)),))
    blank = forecast(workload, CPU)

    def width(found: object, batch: int) -> float:
        bounds = found.at(batch)  # type: ignore[attr-defined]
        return math.log((bounds.high - BASELINE) / (bounds.low - BASELINE))

    assert ahead.at(2048).bytes == pytest.approx(BASELINE + true, rel=0.02)
    assert width(ahead, 2048) < width(ahead, 8192) < width(ahead, 65_536) < width(blank, 65_536)


def test_the_largest_batch_is_where_the_peak_meets_the_limit() -> None:
    ahead = forecast(Workload(network=NETWORKS[2]), CPU)
    middle, low, high = ahead.largest(1.5e9)
    assert 1 <= low < middle < high < MAX_BATCH
    assert ahead.at(middle).bytes <= 1.5e9 < ahead.at(middle + 1).bytes
    assert ahead.at(low).high <= 1.5e9 < ahead.at(low + 1).high
    assert ahead.at(high).low <= 1.5e9 < ahead.at(high + 1).low
    assert ahead.largest(100 * GB) == (MAX_BATCH, MAX_BATCH, MAX_BATCH)
    assert ahead.largest(CONTEXT_BYTES) == (0, 0, 0)


def test_the_frameworks_own_memory_is_what_was_found() -> None:
    assert context_bytes((), CPU) == CONTEXT_BYTES
    assert context_bytes((), Target(device="gpu:0")) == 0
    assert context_bytes(studies(UNLIKE), CPU) == BASELINE


def test_peaks_beyond_the_limit_count_and_deaths_do_not() -> None:
    study = make_memory_study(lambda *_: 1e8, (8,))
    probes = (make_probe(16, None), make_probe(32, 2 * GB, outcome="out_of_memory"))
    found = peaks([study.model_copy(update={"probes": (*study.probes, *probes)})])
    assert [(peak.batch, peak.added_bytes) for peak in found] == [(8, 1e8), (32, 2 * GB - BASELINE)]


def test_the_largest_batch_lies_below_the_first_that_does_not_fit() -> None:
    """Check that nothing beyond the first gap counts, since a forecast bent by measured peaks may fit again further
    up.
    """
    assert _largest(lambda batch: batch <= 100 or 300 <= batch <= 40_000) == 100
    assert _largest(lambda batch: batch <= 60_001) == 60_001
    assert (_largest(lambda _: True), _largest(lambda _: False)) == (MAX_BATCH, 0)


def test_a_measured_peak_far_from_the_model_counts_more_than_the_model() -> None:
    truth = linear(1.0e9, 20e3)  # the model predicts less than a tenth
    study = make_memory_study(truth, (64,), limit_bytes=50 * GB)
    seen = forecast(study.plan.workload, study.plan.target, [study])
    assert seen.at(64).bytes - BASELINE == pytest.approx(truth(study.plan.workload, 64), rel=0.01)


def test_the_compilers_plan_decides_for_a_gpu_where_nothing_was_measured() -> None:
    """The plan of an H200's step is a lower bound, so the upper end of the interval lies well above it."""
    workload, gpu = Workload(network="784-512-512-10"), Target(device="gpu:0")
    machine = make_environment().model_copy(update={"gpus": (Gpu(name="NVIDIA H200"),)})
    planned = planned_bytes(workload, gpu, machine)
    assert planned.keys() >= {1, 32, 256, 8192}
    assert planned_bytes(workload, CPU, machine) == {}
    assert planned_bytes(workload, gpu.model_copy(update={"execution": "graph"}), machine) == {}
    ahead = forecast(workload, gpu, planned=planned)
    for batch, size in planned.items():
        bounds = ahead.at(batch)
        assert bounds.bytes == pytest.approx(size, rel=0.12)
        assert bounds.low < size < 1.2 * size < bounds.high < 2 * size
    assert "compiler's plan of" in predict_memory(workload, gpu, 10**10, (), machine).basis
    probe = make_probe(256, 3 * planned[256], baseline_bytes=0)
    measured = forecast(workload, gpu, (), (probe,), planned)
    assert measured.own_sd == 0
    assert measured.at(256).bytes == pytest.approx(3 * planned[256], rel=0.1), "a measured peak counts instead"
