"""A self-check ends within two minutes with its results so far, whatever happens to it."""

import threading

import pytest

from core.studies.runner import Cancelled
from core.studies.selfcheck.checks import run_checks
from core.studies.selfcheck.run import BUDGET_S, NO_TIME, STOPPED, SelfCheckPlan, run_self_check
from core.worker.protocol import WorkerLost
from simulated.fake_nvml import FakeCard
from simulated.selfchecks import CARD, CPU, GPU, Device
from simulated.tools import tools_for
from tests.support.gpus import BLACKWELL, plug_in

HERE_S = 120.0


def statuses(record) -> dict[str, str]:
    return {check.code: check.status for check in run_checks(record)}


def test_nothing_is_missing_on_a_gpu_and_workers_are_closed() -> None:
    device = Device(GPU)
    record = device.check()
    assert record.readings.missing == {}
    assert record.status == "finished"
    assert record.host is not None
    assert record.elapsed_s < BUDGET_S
    assert device.open_workers == device.hosts.open_workers == 0


def test_progress_names_what_is_read() -> None:
    told = []
    Device(CPU).check(report=told.append)
    assert [p.cells_done for p in told] == sorted(p.cells_done for p in told)
    assert len({p.activity for p in told}) >= 8
    assert all(p.remaining_s <= BUDGET_S for p in told)


@pytest.mark.parametrize("request_s", [6.0, 15.0, 40.0])
def test_a_slow_machine_is_read_as_far_as_the_time_goes(request_s: float) -> None:
    device = Device(GPU, startup_s=20.0, request_s=request_s)
    record = device.check()
    assert device.clock.time_s <= HERE_S
    assert NO_TIME in record.readings.missing.values()
    assert statuses(record)["placement"] == "holds"
    assert "fails" not in statuses(record).values()


@pytest.mark.parametrize("look", ["prepare", "loops", "trace", "factor", "memory", "clusters"])
def test_a_worker_that_hangs_costs_the_time_that_is_left_and_is_no_fault_of_the_device(look: str) -> None:
    device = Device(GPU, hangs=look)
    record = device.check()
    assert device.clock.time_s <= HERE_S
    assert "fails" not in statuses(record).values()
    assert NO_TIME in record.readings.missing.values()
    assert device.open_workers == 0


def test_after_a_lost_worker_another_reads_the_rest() -> None:
    device = Device(GPU, "crash")
    record = device.check()
    assert list(record.readings.missing) == ["memory"]
    assert "SIGSEGV" in record.readings.missing["memory"]
    assert record.readings.clusters is not None
    assert record.readings.equal is not None
    assert device.open_workers == 0


def test_without_a_device_the_reason_is_kept() -> None:
    record = Device(GPU, "no such device").check()
    (failed,) = (check for check in run_checks(record) if check.status == "fails")
    assert "no gpu:0" in failed.sentence


def test_a_gpu_that_is_known_to_be_unusable_is_not_tried_and_its_sentence_kept(monkeypatch) -> None:
    plug_in(monkeypatch, BLACKWELL)
    device = Device(GPU)
    record = run_self_check(tools_for(device), SelfCheckPlan(GPU))
    (failed,) = (check for check in run_checks(record) if check.status == "fails")
    assert failed.code == "worker"
    assert "12.0" in failed.sentence
    assert device.asked == []
    assert record.host is not None
    assert record.machine.gpus[0].name == BLACKWELL.name


def test_what_only_limits_a_gpu_stands_in_the_record(monkeypatch) -> None:
    plug_in(monkeypatch, FakeCard(name=CARD, memory_used=8 * 2**30))
    record = run_self_check(tools_for(Device(GPU)), SelfCheckPlan(GPU))
    assert ["nvidia-smi" in note for note in record.notes] == [True]
    assert "fails" not in statuses(record).values()


def test_stopped_it_keeps_what_was_read() -> None:
    cancel = threading.Event()
    device = Device(GPU)

    def stop_at_the_trace(progress) -> None:
        if "Tracing steps" in progress.activity:
            cancel.set()

    record = device.check(cancel=cancel, report=stop_at_the_trace)
    assert record.status == "cancelled"
    assert record.readings.loops is not None
    assert record.readings.missing["memory"] == STOPPED
    assert statuses(record)["memory"] == "unseen"
    assert device.open_workers == 0


def test_stopped_before_a_worker_is_ready_there_is_nothing() -> None:
    device = Device(GPU)
    cancel = threading.Event()

    def launch(*_):
        cancel.set()
        raise Cancelled

    with pytest.raises(Cancelled):
        device.check(cancel=cancel, launch=launch)


def test_with_too_little_time_left_nothing_is_asked() -> None:
    device = Device(GPU, startup_s=BUDGET_S - 1)
    record = device.check()
    assert device.asked == []
    assert set(record.readings.missing.values()) == {NO_TIME}


def test_a_host_that_does_not_start_costs_no_more_than_the_time() -> None:
    device = Device(CPU, request_s=4.0)

    def launch(targets, deadline_s, check, **limits):
        if targets == (device.target,):
            return device.launch(targets, deadline_s, check, **limits)
        for _ in range(1_000):
            device.clock.advance(1.0)
            check()
        raise WorkerLost("hung", "Nobody looked at the time.")

    record = device.check(launch=launch)
    assert device.clock.time_s <= BUDGET_S + 1
    assert record.readings.missing["floor"] == NO_TIME
    assert record.status == "finished"


def test_stopped_it_asks_for_nothing_more() -> None:
    cancel = threading.Event()
    device = Device(GPU)
    record = device.check(cancel=cancel, report=lambda p: "Allocating" in p.activity and cancel.set())
    assert device.asked[-1] == "memory"
    assert record.readings.memory is not None
    assert record.host is None


def test_the_target_is_measured_against_itself_at_the_end() -> None:
    equal = Device(CPU).check().readings.equal
    assert equal is not None
    assert set(equal.claims) <= {"equivalent"}
    assert equal.difference is not None
    assert equal.starts >= 1
    unequal = Device(CPU, "unequal workers").check()
    assert statuses(unequal)["equal"] == "fails"
    for difference, status in ((None, "unseen"), (0.6, "unseen"), (0.4, "holds")):
        noisy = unequal.readings.model_copy(update={"equal": equal.model_copy(update={"difference": difference})})
        assert statuses(unequal.model_copy(update={"readings": noisy}))["equal"] == status
