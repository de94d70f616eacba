"""Warm-up and calibration on a machine whose step times are known."""

import random

import pytest

from core.worker import timing


class Machine:
    """Machine that runs steps in virtual time: ``step_ms`` of the n-th step, plus a fixed cost per synchronisation."""

    def __init__(self, step_ms, fixed_ms=0.0):
        self.step_ms, self.fixed_ms = step_ms, fixed_ms
        self.steps, self.now_ms = 0, 0.0

    def run(self, steps):
        took = self.fixed_ms + sum(self.step_ms(self.steps + i) for i in range(steps))
        self.steps += steps
        self.now_ms += took
        return took


def falling(slow, fast, until):
    return lambda n: slow + (fast - slow) * n / until if n < until else fast


def test_warm_up_waits_for_a_falling_step_time_and_for_a_cache():
    machine = Machine(falling(10.0, 2.0, until=300))
    done = timing.warm_up(machine.run, cap_ms=60_000)
    assert done.steady
    assert done.steps == machine.steps > 200
    assert done.ms == pytest.approx(machine.now_ms)
    assert done.step_ms < 3.0
    machine = Machine(lambda n: 50.0 if n < 40 else 1.5)
    done = timing.warm_up(machine.run, cap_ms=2_000, at_least_steps=40)
    assert done.steady
    assert done.step_ms == pytest.approx(1.5)


def test_constant_steps_are_steady_soon_but_not_before_the_least_time():
    machine = Machine(lambda _: 0.1)
    done = timing.warm_up(machine.run, cap_ms=2_000)
    assert done.steady
    assert timing.MIN_WARMUP_SHARE * 2_000 <= done.ms < 200
    assert done.step_ms == pytest.approx(0.1)


def test_a_warm_up_that_cannot_settle_ends_at_its_cap():
    machine = Machine(lambda n: 2.0 * 1.02**n)
    done = timing.warm_up(machine.run, cap_ms=500)
    assert not done.steady
    assert 500 <= done.ms < 600
    done = timing.warm_up(Machine(lambda _: 900.0).run, cap_ms=500)
    assert (done.steps, done.steady, done.step_ms) == (4, False, 900.0)


def test_noise_alone_does_not_keep_windows_apart_but_a_step_down_does():
    rng = random.Random(4)
    noisy = [[rng.gauss(10, 1.5) for _ in range(40)] for _ in range(200)]
    assert sum(timing.windows_agree(values[:20], values[20:]) for values in noisy) > 170
    assert not timing.windows_agree([1.3] * 20, [1.0] * 20)
    assert not timing.windows_agree([9.0] + [1.0] * 19, [1.0] * 20)


@pytest.mark.parametrize("step_ms", [0.003, 0.4, 7.0, 19.0, 21.0, 500.0])
def test_calibrated_blocks_are_long_enough_and_not_much_longer(step_ms):
    steps = timing.calibrate(Machine(lambda _: step_ms).run, step_ms, block_ms=20, resolution_ms=1e-4)
    assert steps * step_ms >= 20
    assert steps == 1 or (steps - 1) * step_ms < 1.2 * 20


def test_calibration_corrects_a_wrong_estimate_and_a_coarse_clock():
    machine = Machine(lambda _: 0.05, fixed_ms=0.5)
    assert 20 <= machine.run(timing.calibrate(machine.run, 5.0, block_ms=20, resolution_ms=1e-4)) < 40
    steps = timing.calibrate(Machine(lambda _: 1.0).run, 1.0, block_ms=20, resolution_ms=0.1)
    assert 100 <= steps <= 120
    assert 0 < timing.clock_resolution_ms() < 20


@pytest.mark.parametrize(
    ("idle_ms", "wake_ms"),
    [(0.0, 0.0), (20.0, 0.0), (199.0, 0.0), (200.0, 50.0), (1_000.0, 200.0), (60_000.0, 300.0), (float("inf"), 300.0)],
)
def test_a_gpu_is_woken_by_how_long_it_idled(idle_ms, wake_ms):
    assert timing.wake_ms(idle_ms) == wake_ms
    machine = Machine(lambda _: 7.0)
    spent = timing.wake(machine.run, idle_ms)
    assert spent == machine.now_ms
    assert wake_ms <= spent < wake_ms + 7.0
    assert timing.wake(machine.run, idle_ms, already_ms=400.0) == 0.0  # a pipeline was warmed up meanwhile


def test_blocks_of_a_woken_gpu_do_not_show_how_long_it_idled():
    """Make its steps take twice as long at first, and again after each pause."""

    class Gpu(Machine):
        """Clocks that fall while it idles, and rise within 100 ms of work."""

        def __init__(self):
            self.cold_ms = 100.0
            super().__init__(lambda _: 1.0)

        def run(self, steps):
            slow = min(self.cold_ms, steps * 2.0)
            self.cold_ms -= slow
            self.now_ms += slow + (steps - slow / 2)
            return slow + (steps - slow / 2)

    def block(woken, idle_ms):
        gpu = Gpu()
        gpu.cold_ms = min(100.0, idle_ms / 5)
        if woken:
            timing.wake(gpu.run, idle_ms)
        return gpu.run(20)

    assert block(woken=False, idle_ms=10_000.0) == 40.0
    for idle_ms in (200.0, 500.0, 10_000.0):
        assert block(woken=True, idle_ms=idle_ms) == 20.0


def test_latencies_are_the_steps_that_warming_up_ended_with_where_it_timed_single_ones() -> None:
    slow = timing.warm_up(lambda steps: 5.0 * steps, 1000.0)
    assert slow.steady
    assert timing.latencies(lambda _: pytest.fail("timed again"), slow, 9) == (5.0,) * 9
    ran: list[int] = []

    def quick(steps: int) -> float:
        ran.append(steps)
        return 0.1 * steps

    warm = timing.warm_up(quick, 1000.0)
    assert warm.steady
    assert warm.singles_ms == ()  # a sample was ten steps
    ran.clear()
    assert timing.latencies(quick, warm, 9) == (0.1,) * 9
    assert ran == [1] * 9


@pytest.mark.parametrize(("step_ms", "count"), [(20.0, 5), (30.0, 4), (400.0, 3), (1.0, 9)])
def test_slow_steps_that_did_not_settle_are_timed_fewer_times(step_ms: float, count: int) -> None:
    warm = timing.WarmUp(steps=3, ms=3 * step_ms, steady=False, step_ms=step_ms)
    assert timing.latencies(lambda _: step_ms, warm, 9) == (step_ms,) * count


def test_each_single_step_comes_after_its_pause() -> None:
    events: list[str] = []

    def step(_: int) -> float:
        events.append("step")
        return 40.0

    assert timing.singles(step, 30, lambda: events.append("pause")) == (40.0,) * 3
    assert events == ["pause", "step"] * 3


def test_a_step_that_lasts_a_block_is_not_run_once_more_to_find_that_out() -> None:
    assert timing.calibrate(lambda _: pytest.fail("run again"), 25.0, 20.0, 1e-4) == 1
