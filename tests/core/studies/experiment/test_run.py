"""The runner of experiments on a simulated machine: its rounds, its workers, its budget and its noise."""

from collections import Counter
from itertools import pairwise

import pytest

from core.base.evidence import Interference
from core.studies.experiment.effects import effects
from core.studies.experiment.run import MAX_STARTS, MIN_ROUNDS, MIN_STARTS
from core.workload.spec import Target
from simulated.simulation import NoiseModel, SimulatedWorker
from tests.support.experiments import FOUR, GAINS, MIXED, WORKLOAD, machine, measure, processes


def test_every_round_holds_every_arm_once() -> None:
    found = measure(machine(NoiseModel()))
    assert found.status == "finished"
    assert found.outcomes == ()
    assert [item.index for item in found.rounds] == list(range(len(found.rounds)))
    for item in found.rounds:
        assert sorted(block.arm for block in item.blocks) == [0, 1, 2, 3]
        assert len({block.process for block in item.blocks}) == 1


def test_the_order_turns_and_reverses() -> None:
    found = measure(machine(), budget_s=120.0)
    orders = [[block.arm for block in item.blocks] for item in found.rounds]
    assert orders[:4] == [[0, 1, 2, 3], [3, 2, 1, 0], [1, 2, 3, 0], [0, 3, 2, 1]]
    whole = orders[: 8 * (len(orders) // 8)]
    places = Counter((arm, place) for order in whole for place, arm in enumerate(order))
    assert places == {(arm, place): len(whole) // 4 for arm in range(4) for place in range(4)}
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert max(follows.values()) < 0.6 * len(orders), "no arm always runs after the same one"


def test_an_odd_number_of_arms_takes_turns_too() -> None:
    found = measure(machine(), FOUR[:3])
    firsts = Counter(item.blocks[0].arm for item in found.rounds)
    assert max(firsts.values()) - min(firsts.values()) <= 2
    assert len(firsts) == 3


def test_known_gains_are_found() -> None:
    found = measure(machine(NoiseModel(common_drift=0.1)), budget_s=90.0)
    for effect in effects(found):
        code = FOUR[effect.arm].code
        if effect.arm:
            assert effect.speed_up_low <= GAINS[code] * 1.02
            assert effect.speed_up_high >= GAINS[code] / 1.02
        assert effect.speed_up == pytest.approx(GAINS[code], rel=0.05)
        assert effect.step_ms == pytest.approx(5.0 / GAINS[code], rel=0.15)


def test_blocks_say_when_they_ran() -> None:
    made = machine()
    found = measure(made)
    times = [block.at_s for item in found.rounds for block in item.blocks]
    assert times == sorted(times)
    assert times[0] == pytest.approx(made.startup_s + 4 * made.prepare_s)
    assert times[-1] < found.elapsed_s == made.clock.now_s()
    assert found.budget_s == 60.0
    assert found.environment is not None
    assert found.created_at


def test_arms_on_the_same_device_and_threads_share_a_worker() -> None:
    made = machine()
    measure(made, MIXED)
    hosts = (Target(threads=2), Target(threads=1), Target(device="gpu:0"))
    assert set(made.launched) == {hosts}
    served = {(runs_on, request.slot) for _, runs_on, request in made.asked}
    assert served == {(hosts[0], 0), (hosts[1], 1), (hosts[0], 2), (hosts[2], 3), (hosts[2], 4)}
    for _, _, request in made.asked:
        wanted = MIXED[request.slot]
        assert (request.variant, request.pipeline, request.batch) == (wanted.target, wanted.pipeline, wanted.batch)
        assert request.workload == WORKLOAD


def test_a_worker_is_launched_on_what_cannot_change_within_a_process() -> None:
    odd = Target(device="gpu:1", precision="mixed_float16", execution="xla", steps_per_execution=4)
    assert odd.host == Target(device="gpu:1")
    assert Target(threads=3, execution="eager").host == Target(threads=3)


def test_workers_restart_when_the_budget_allows() -> None:
    made = machine(NoiseModel(process=0.1))
    found = measure(made, budget_s=60.0)
    assert MIN_STARTS <= made.starts <= MAX_STARTS
    rounds = processes(found)
    assert set(rounds) == set(range(made.starts))
    assert min(rounds.values()) >= MIN_ROUNDS
    first, last = rounds[0], rounds[made.starts - 1]
    assert last < 2.5 * first, "the time is divided among the starts"


@pytest.mark.parametrize(("budget_s", "fewest"), [(8.0, 1), (25.0, 150)])
def test_a_budget_too_short_for_restarts_goes_to_the_rounds_of_one_start(budget_s: float, fewest: int) -> None:
    made = machine(NoiseModel())
    found = measure(made, budget_s=budget_s)
    assert made.starts == 1
    assert len(found.rounds) >= fewest
    assert found.status == "finished"
    assert effects(found)[1].processes == 1


def test_precise_arms_end_the_experiment_early_but_not_before_three_starts() -> None:
    made = machine(NoiseModel(0.0005, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0))
    found = measure(made, budget_s=300.0)
    assert made.starts == MIN_STARTS
    # each of three starts has its share of the rest; a fourth share is reserved
    assert found.elapsed_s < 0.8 * 300.0
    noisy = machine(NoiseModel(process=0.0, cell=0.1))
    measure(noisy, budget_s=300.0)
    assert noisy.starts > MIN_STARTS


@pytest.mark.parametrize("budget_s", [25.0, 60.0, 150.0])
def test_the_budget_is_kept(budget_s: float) -> None:
    made = machine(NoiseModel(cell=0.1))
    found = measure(made, budget_s=budget_s)
    a_start_s = made.startup_s + len(FOUR) * made.prepare_s
    assert found.elapsed_s <= budget_s + a_start_s + 1.0
    assert found.elapsed_s >= 0.5 * budget_s


def test_an_arm_alone_is_started_three_times_too() -> None:
    made = machine()
    measure(made, FOUR[:1])
    assert made.starts >= MIN_STARTS


def test_slow_rounds_end_with_the_budget() -> None:
    """Let a round take 10 s: four would exceed the remainder of 30 s after starting."""
    found = measure(machine(law=lambda *_: 2500.0), budget_s=30.0)
    assert 1 <= len(found.rounds) < MIN_ROUNDS
    assert found.elapsed_s <= 30.0 + 10.5


def test_blocks_of_an_arm_are_alike_in_every_start() -> None:
    made = machine(NoiseModel())
    found = measure(made)
    steps: dict[int, set[int]] = {}
    for item in found.rounds:
        for block in item.blocks:
            steps.setdefault(block.arm, set()).add(block.steps)
    # 20 ms over 5 ms, over 5/1.5, over 5/2, over 5/1.1
    assert steps == {0: {4}, 1: {6}, 2: {8}, 3: {5}}
    given = {(start, request.slot): request.steps_per_block for start, _, request in made.asked}
    assert all(given[0, index] is None for index in range(4))
    assert all(given[1, index] == min(steps[index]) for index in range(4))


def test_noise_is_sampled_once_a_round_with_our_processes() -> None:
    made = machine(NoiseModel())
    asked: list[tuple[float, tuple[int, ...]]] = []

    class SinceLast:
        """Sampler that reports the seconds since its last call as if they were other processes' use."""

        last_s = 0.0

        def reset(self, our_cpu_s: float, our_pids: tuple[int, ...]) -> None:
            asked.append((our_cpu_s, our_pids))
            self.last_s = made.clock.now_s()

        def sample(self, our_cpu_s: float, our_pids: tuple[int, ...]) -> Interference:
            asked.append((our_cpu_s, our_pids))
            since_s, self.last_s = made.clock.now_s() - self.last_s, made.clock.now_s()
            return Interference(other_cpu_pct=since_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedWorker, "cpu_time_s", lambda self: 1.5 + self._target)
        found = measure(made, MIXED, interference=SinceLast())
    assert made.starts > 1
    assert set(asked) == {(1.5 + 2.5 + 3.5, (1000, 1001, 1002))}
    assert len(asked) == len(found.rounds) + made.starts
    # no round includes starting and preparing: five blocks of about 21 ms at most, apart from stalls
    assert max(item.interference.other_cpu_pct or 0.0 for item in found.rounds) < made.prepare_s
