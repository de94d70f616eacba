"""A fault planted in a simulated device makes its check fail, and no other."""

import pytest

from core.studies.selfcheck.checks import CHECKS, NOISY, Check, Ratio, run_checks
from core.studies.selfcheck.record import SelfCheck
from simulated.selfchecks import CPU, FAULTS, GPU, Device


def by_status(record: SelfCheck) -> dict[str, set[str]]:
    checks = run_checks(record)
    assert [check.code for check in checks] == list(CHECKS)
    assert all(check.sentence for check in checks)
    return {status: {c.code for c in checks if c.status == status} for status in ("holds", "fails", "unseen")}


def check_of(record: SelfCheck, code: str) -> Check:
    return next(check for check in run_checks(record) if check.code == code)


def test_all_holds_on_a_good_gpu() -> None:
    assert by_status(Device(GPU).check())["holds"] == set(CHECKS)


def test_on_a_good_cpu_all_holds_but_what_only_a_gpu_shows() -> None:
    found = by_status(Device(CPU).check())
    assert found["unseen"] == {"resident_copies", "host_copies", "cudnn", "card_clock", "compiled"}
    assert not found["fails"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_exactly_its_check_fail(fault: str) -> None:
    record = Device(GPU, fault).check()
    assert by_status(record)["fails"] == {FAULTS[fault]}


def test_every_check_has_a_fault() -> None:
    assert set(FAULTS.values()) == set(CHECKS)


@pytest.mark.parametrize("seed", range(10))
def test_noise_makes_nothing_fail_and_is_said(seed: int) -> None:
    record = Device(GPU, noise=0.4, seed=seed).check()
    assert not by_status(record)["fails"]
    unsure = check_of(record, "loop")
    assert (unsure.status, unsure.sentence) == ("unseen", NOISY)
    assert " to " in unsure.figure


def test_a_bound_within_the_interval_decides_nothing() -> None:
    assert Ratio(1.0, 0.9, 1.1).judged(0.9, 1.1, "good", "bad").status == "holds"
    assert Ratio(1.0, 0.8, 1.1).judged(0.9, 1.1, "good", "bad").status == "unseen"
    assert Ratio(1.2, 1.11, 1.3).judged(0.9, 1.1, "good", "bad").status == "fails"
    assert Ratio(0.8, 0.7, 0.89).judged(0.9, 1.1, "good", "bad").status == "fails"
    assert Ratio(1.0, None, None).judged(0.9, 1.1, "good", "bad").status == "unseen"


def test_too_few_repetitions_are_no_pass() -> None:
    ratio = Ratio.of((1.0,) * 5, (1.0,) * 5)
    assert ratio is not None
    assert ratio.judged(0.9, 1.1, "good", "bad").status == "unseen"
    assert "too few" in ratio.words


def test_a_trace_without_bytes_says_so() -> None:
    device = Device(GPU)
    record = device.check()
    without = [trace.model_copy(update={"h2d_bytes": None}) for trace in record.readings.traces]
    record = record.model_copy(update={"readings": record.readings.model_copy(update={"traces": tuple(without)})})
    found = check_of(record, "resident_copies")
    assert found.status == "unseen"
    assert "bytes" in found.sentence


def test_a_gpu_that_nvml_does_not_watch_is_no_pass() -> None:
    found = check_of(Device(GPU).check(meter=None), "card_clock")
    assert found.status == "unseen"
    assert "NVML" in found.sentence


def test_a_longer_computation_that_takes_too_long_was_waited_for() -> None:
    record = Device(GPU).check()
    factor = record.readings.factor
    assert factor is not None
    slow = factor.model_copy(update={"long_ms": tuple(3 * ms for ms in factor.long_ms)})
    record = record.model_copy(update={"readings": record.readings.model_copy(update={"factor": slow})})
    found = check_of(record, "sync_waits")
    assert (found.status, found.sentence) == ("unseen", NOISY)


def test_where_the_step_ran_elsewhere_what_rests_on_it_is_not_judged() -> None:
    found = by_status(Device(GPU, "misplaced").check())
    assert {"loop", "one_sync", "parts_sum", "clock"} <= found["unseen"]
    assert {"sync_waits", "memory"} <= found["holds"]
