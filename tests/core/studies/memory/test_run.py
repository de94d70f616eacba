"""The search for the largest batch that fits, on simulated workers whose memory is known."""

import math
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.machine.cgroup import Killed
from core.studies.memory.answer import memory_answer
from core.studies.memory.export import memory_text
from core.studies.memory.record import MemoryPlan, MemoryStudy, Probe
from core.studies.memory.run import MOST_PROBES, TOLERANCE, MemorySearch, run_memory_study
from core.studies.runner import StudyFailed
from core.worker.protocol import WorkerLost
from core.workload.spec import MAX_BATCH, Target, Workload
from simulated.memories import BASELINE, GB, MemoryMachine, in_steps, linear, make_probe
from simulated.tools import tools_for

MLP = Workload(network="784-512-512-10")
LIMIT = 1_200_000_000
TWENTY_KB = linear(30e6, 20e3)  # a sample: the limit is reached at batch 26,000


def study(machine: MemoryMachine, limit_bytes: int = LIMIT, workload: Workload = MLP, **more: object) -> MemoryStudy:
    plan = MemoryPlan(workload=workload, target=Target(), limit_bytes=limit_bytes, budget_s=1000.0, **more)
    return machine.study(plan)


def assert_sound(found: MemoryStudy, machine: MemoryMachine) -> None:
    """Check that no batch said to fit exceeds one that ran out, no worker is left, and none exceeded the limit."""
    ran_out = [probe.batch for probe in found.probes if probe.ran_out]
    assert len(found.probes) == len(set(machine.tried)) <= MOST_PROBES
    assert found.largest_fitted is None or not ran_out or found.largest_fitted < min(ran_out)
    assert machine.most_bytes <= found.plan.limit_bytes


@settings(max_examples=25)
@example(fixed=5e6, log_sample=7.90625, limit=5490053127.0)  # was 60 to 128 before the last probes halved the octaves
@given(fixed=st.floats(5e6, 1.5e9), log_sample=st.floats(3.7, 9.0), limit=st.floats(0.8e9, 20e9))
def test_the_bracket_holds_the_truth_however_wrong_the_model(fixed: float, log_sample: float, limit: float) -> None:
    """Start from a model of 26 MB and 13 kB per sample; the truth may be ten thousand times that.

    Eight probes then leave a factor of two at most.
    """
    machine = MemoryMachine(linear(fixed, 10**log_sample))
    found = study(machine, round(limit))
    assert_sound(found, machine)
    largest = machine.largest(MLP, round(limit))
    fitted, refused = found.largest_fitted or 0, found.smallest_refused or MAX_BATCH + 1
    assert fitted <= largest < refused or MAX_BATCH / max(fitted, 1) <= TOLERANCE
    if largest == 0:
        assert found.smallest_refused == 1
    else:
        assert refused - fitted <= 1 or refused / fitted <= 2


@settings(max_examples=25)
@example(fixed=0.5, sample=0.5, limit=1165163352.0)  # ended at 62,417 fitted and nothing refused, below MAX_BATCH
@given(fixed=st.floats(0.5, 2), sample=st.floats(0.5, 2), limit=st.floats(0.8e9, 1.2e9))
def test_it_closes_within_a_twentieth_where_the_model_is_right_within_a_factor_of_two(
    fixed: float, sample: float, limit: float
) -> None:
    machine = MemoryMachine(linear(26e6 * fixed, 13e3 * sample))
    found = study(machine, round(limit))
    assert_sound(found, machine)
    fitted, refused = found.largest_fitted, found.smallest_refused
    assert fitted <= machine.largest(MLP, round(limit))
    if refused is not None:
        assert machine.largest(MLP, round(limit)) < refused
        assert refused - fitted <= 1 or refused / fitted <= TOLERANCE
    else:
        assert MAX_BATCH / fitted <= TOLERANCE


@settings(max_examples=25)
@given(
    log_sample=st.floats(3.9, 5.0),
    noise=st.floats(0.0, 0.03),
    region=st.sampled_from([1, 2**20, 64 * 2**20]),
    seed=st.integers(0, 10**6),
)
def test_noise_and_regions_of_an_allocator_do_not_mislead_it(
    log_sample: float, noise: float, region: int, seed: int
) -> None:
    machine = MemoryMachine(in_steps(linear(40e6, 10**log_sample), region), noise=noise, seed=seed)
    found = study(machine)
    assert_sound(found, machine)
    fitted, refused = found.largest_fitted, found.smallest_refused
    slack = math.exp(5 * noise)  # no process deviates more
    least, most = (machine.largest(MLP, BASELINE + round((LIMIT - BASELINE) * by)) for by in (1 / slack, slack))
    assert fitted <= most
    if refused is not None:
        assert refused > least
        assert refused - fitted <= 1 or refused / fitted <= 2


def test_everything_fits_is_one_probe() -> None:
    machine = MemoryMachine(linear(30e6, 200.0))
    found = study(machine, 8 * GB)
    assert machine.tried == [MAX_BATCH]
    assert (found.largest_fitted, found.smallest_refused) == (MAX_BATCH, None)


def test_the_first_probe_tests_what_is_said_to_fit() -> None:
    machine = MemoryMachine(TWENTY_KB)
    first = study(machine).probes[0]
    assert first.predicted_fits
    assert first.predicted_low_bytes < first.predicted_bytes < first.predicted_high_bytes <= LIMIT


def test_a_peak_beyond_the_limit_that_slipped_through_is_no_fit() -> None:
    machine = MemoryMachine(linear(30e6, 300e3))
    limits: list[int | None] = []

    def lenient(targets: tuple[Target, ...], deadline_s: float, *_: object, limit_bytes: int | None = None) -> object:
        limits.append(limit_bytes)
        return machine.launch(targets, deadline_s, limit_bytes=100 * GB)

    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=2 * GB, budget_s=500.0)
    found = run_memory_study(tools_for(machine, launch=lenient), MemorySearch(plan), lambda: 9 * GB)
    assert set(limits) == {2 * GB}
    over = [probe for probe in found.probes if probe.ran_out]
    assert over
    assert all(probe.peak_bytes is not None and probe.peak_bytes > 2 * GB for probe in over)
    assert found.largest_fitted <= machine.largest(MLP, 2 * GB)


def test_earlier_studies_of_this_machine_save_probes_and_narrow_the_first_prediction() -> None:
    machine = MemoryMachine(TWENTY_KB)
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=LIMIT, budget_s=1000.0)
    first = machine.study(plan)
    again = machine.study(plan, (first,))
    assert len(again.probes) < len(first.probes)
    widths = [p.predicted_high_bytes / p.predicted_low_bytes for p in (first.probes[0], again.probes[0])]
    assert widths[1] < widths[0] / 1.2
    other = first.model_copy(update={"environment": None})
    alone = machine.study(plan, (other,))
    assert [p.batch for p in alone.probes] == [p.batch for p in first.probes]


def test_the_budget_bounds_the_search() -> None:
    machine = MemoryMachine(TWENTY_KB, startup_s=6.0)
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=LIMIT, budget_s=20.0)
    found = machine.study(plan)
    assert 1 <= len(found.probes) <= 3
    assert found.elapsed_s <= 20.0
    assert found.status == "finished"


def test_a_batch_too_slow_for_the_budget_leaves_room_for_smaller_ones() -> None:
    machine = MemoryMachine(TWENTY_KB, sample_s=0.01)
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=LIMIT, budget_s=120.0)
    found = machine.study(plan)
    assert found.probes[0].outcome == "hung"
    assert found.largest_fitted is not None
    assert found.smallest_refused is None  # a hang proves nothing about memory
    assert found.elapsed_s < 1.5 * plan.budget_s


def test_a_crash_counts_as_not_fitting_and_an_error_ends_the_search() -> None:
    crashing = MemoryMachine(TWENTY_KB, faults={5000: "crashed"})
    found = study(crashing)
    assert_sound(found, crashing)
    assert found.largest_fitted < 5000 <= (found.smallest_refused or 0) <= 1.1 * found.largest_fitted
    with pytest.raises(StudyFailed, match="Planted: error"):
        study(MemoryMachine(TWENTY_KB, faults={1: "error"}))


@pytest.mark.parametrize("trouble", ["no start", "too little is free"])
def test_what_ends_the_search_later_keeps_what_was_tried(trouble: str) -> None:
    machine = MemoryMachine(TWENTY_KB)
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=LIMIT, budget_s=1000.0)
    whole = machine.study(plan)

    def launch(*asked: object, **limits: object) -> object:
        if trouble == "no start" and len(again.tried) == 2:
            raise WorkerLost("crashed", "The worker did not start.")
        return again.launch(*asked, **limits)

    again = MemoryMachine(TWENTY_KB)
    free = lambda: GB if trouble != "no start" and len(again.tried) == 2 else 9 * GB  # noqa: E731
    found = run_memory_study(tools_for(again, launch=launch), MemorySearch(plan), free)
    assert found.status == "failed"
    assert [probe.batch for probe in found.probes] == [probe.batch for probe in whole.probes[:2]]
    *_, warning = found.warnings
    why = "The worker did not start." if trouble == "no start" else "The limit is 1.20 GB, but only 1.00 GB are free"
    assert f"after 2 probes: {why}" in warning.text
    assert warning.text in memory_text(found, memory_answer(found))


@pytest.mark.parametrize(
    ("killed", "outcome", "words"),
    [
        (Killed(by="container", limit_bytes=GB), "out_of_memory", "the container's memory limit of 1 GB was reached"),
        (Killed(by="machine"), "out_of_memory", "the machine ran out of memory"),
        (Killed(by="unknown"), "crashed", "something outside killed it"),
    ],
)
def test_a_kill_is_not_the_limits_doing_and_ends_the_search(killed: Killed, outcome: str, words: str) -> None:
    """Check a former false statement: “Batch 712 fits within 4 GB and 744 ran out”, for a container of 1.6 GB."""
    free = MemoryMachine(TWENTY_KB)
    batch = study(free).probes[1].batch
    found = study(MemoryMachine(TWENTY_KB, faults={batch: killed}))
    assert [probe.outcome for probe in found.probes] == ["measured", outcome]
    assert (found.smallest_refused, found.largest_fitted) == (None, found.probes[0].batch)
    assert MemoryStudy.from_json(found.to_json()).probes[1].killed == killed
    answer = memory_answer(found)
    assert answer.refused is None
    assert "ran out:" not in answer.sentence
    assert f"Batch {batch:,} says nothing" in answer.sentence
    assert words in answer.sentence
    assert answer.wrong.n_ran_out == 0
    with pytest.raises(StudyFailed, match=words):
        study(MemoryMachine(TWENTY_KB, faults={1: killed}))


def test_a_record_of_a_kill_must_agree_with_its_outcome() -> None:
    made = make_probe(9, None, killed=Killed(by="container", limit_bytes=GB)).model_dump()
    assert Probe.model_validate(made).killed is not None
    with pytest.raises(ValueError, match="out_of_memory, not crashed"):
        Probe.model_validate(made | {"outcome": "crashed"})


def test_cancel_keeps_what_there_is() -> None:
    cancel = threading.Event()
    machine = MemoryMachine(TWENTY_KB)
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=LIMIT, budget_s=1000.0, run_id="20260105-abcdef")

    def launch(targets: tuple[Target, ...], deadline_s: float, *_: object, limit_bytes: int | None = None) -> object:
        cancel.set()
        return machine.launch(targets, deadline_s, limit_bytes=limit_bytes)

    found = run_memory_study(tools_for(machine, cancel=cancel, launch=launch), MemorySearch(plan), lambda: 9 * GB)
    assert (found.status, len(found.probes), found.run_id) == ("cancelled", 1, "20260105-abcdef")
    with pytest.raises(StudyFailed, match="before the first"):
        machine.study(plan, cancel=cancel)


def test_limits_that_cannot_be_are_refused_with_a_sentence() -> None:
    machine = MemoryMachine(TWENTY_KB, free_bytes=GB)
    with pytest.raises(StudyFailed, match=r"only 1\.00 GB"):
        study(machine)
    assert machine.tried == []
    with pytest.raises(StudyFailed, match="framework needs"):
        study(machine, BASELINE - 1)


def test_a_first_probe_of_batch_1_does_not_end_the_search() -> None:
    """Check that its time, all of it starting, says nothing about a larger batch."""
    limit = BASELINE + 60_000_000
    machine = MemoryMachine(linear(20e6, 20e3))
    plan = MemoryPlan(workload=MLP, target=Target(), limit_bytes=limit, budget_s=60.0)
    found = machine.study(plan)
    assert 2000 / 1.2 <= found.largest_fitted <= 2000
