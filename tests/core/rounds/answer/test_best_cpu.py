"""The CPU setting with which a GPU is compared: the target of a run, its words, and the measurements."""

import pytest

from core.hardware import crossing
from core.hardware.compare import cpu_index
from core.hardware.crossing import cross
from core.rounds.answer.best_cpu import LOOK_BATCHES, choice_line, look_lines, rank_cpus, setting_words
from core.studies.sweep.presets import compared_targets, cpu_settings, look_plan
from core.studies.sweep.proposal import holds_three_starts
from core.workload.spec import Target, Workload
from simulated.hosts import cells_of, make_curve
from simulated.runs import BATCHES, make_run, planned

ONE, TWO, COMPILED, GPU = (
    Target(threads=1),
    Target(threads=2),
    Target(threads=2, execution="xla"),
    Target(device="gpu:0"),
)
FLOORS, SLOPES = (2.0, 0.8, 0.4), (0.08, 0.02, 0.01)
"""One thread is the slowest at every batch, two with XLA the fastest."""
RUN = planned(make_run(3, floors_ms=FLOORS, slopes_ms=SLOPES), targets=(ONE, TWO, COMPILED))
ANSWER = cells_of(RUN)


def ranked(floors_ms, slopes_ms, targets, batches=BATCHES):
    run = planned(make_run(3, batches, floors_ms=floors_ms, slopes_ms=slopes_ms), targets=targets)
    return run, rank_cpus(run, cells_of(run))


def test_a_badly_set_cpu_that_stands_first_is_not_the_comparison() -> None:
    found = rank_cpus(RUN, ANSWER)
    assert found is not None
    assert (found.targets, found.batches) == ((2, 1, 0), (1, 32, 1024))
    assert cpu_index(RUN, ANSWER) == 2


def test_a_card_that_beats_only_the_badly_set_cpu_has_not_won() -> None:
    card = make_curve(lambda batch: (1.0 + 0.0025 * batch**2) ** 0.5, BATCHES, -0.05, 0.05)
    assert cross(RUN, ANSWER, card, 0).kind == "gpu ahead throughout"
    best = cross(RUN, ANSWER, card, cpu_index(RUN, ANSWER))
    assert (best.kind, best.clearly_from) == ("cpu ahead throughout", None)


def test_the_sentence_names_the_best_and_says_it_of_every_other() -> None:
    card = make_curve(lambda _: 1.0, BATCHES, -0.05, 0.05)
    best = cross(RUN, ANSWER, card, 2)
    assert (best.setting, best.cpu) == ("the CPU's best (2 threads, XLA)", "2 threads, XLA")
    assert best.setting in best.sentence
    assert cross(RUN, ANSWER, card, 0).setting == "1 thread (the CPU's best: 2 threads, XLA)"
    own = RUN.model_copy(update={"label": "measured"})
    assert setting_words(own, ANSWER, 2) == "this CPU's best (2 threads, XLA)"
    assert choice_line(RUN, ANSWER) == (
        "The CPU's best of 3 settings: 2 threads, XLA, whose steps at batch 1, 32 and 1,024 take the least time "
        "together; also measured: 2 threads and 1 thread."
    )


def test_a_best_that_noise_may_have_chosen_is_said_to_have_an_equal() -> None:
    run, _ = ranked((2.0, 0.8, 0.8), (0.08, 0.01, 0.01), (ONE, TWO, COMPILED))
    line = choice_line(run, cells_of(run))
    assert line.count("be as fast") == 1
    assert "1 thread may" not in line


def test_where_another_setting_is_clearly_faster_at_one_of_the_three_batches_that_is_said() -> None:
    run, found = ranked((0.2, 0.8), (0.05, 0.01), (ONE, TWO))
    assert found is not None
    assert found.best == 1
    assert "thread is clearly" in choice_line(run, cells_of(run))


@pytest.mark.parametrize(
    ("target", "name"), [(TWO, "2 threads"), (Target(), "all threads"), (Target(execution="xla"), "all threads, XLA")]
)
def test_a_cpu_in_one_setting_is_named_with_that_nothing_else_was_tried(target: Target, name: str) -> None:
    run, found = ranked((2.0, 0.5), (0.08, 0.01), (target, GPU))
    assert found is not None
    assert found.targets == (0,)
    assert f"({name}; no other" in setting_words(run, cells_of(run), 0)
    assert f"alone ({name})" in choice_line(run, cells_of(run))
    assert setting_words(run, cells_of(run), 1) == run.names[1]  # the GPU


def test_without_a_common_batch_the_setting_with_the_most_batches_counts_and_without_a_cpu_none() -> None:
    rounds = [
        item.model_copy(update={"blocks": tuple(b for b in item.blocks if (b.target == 1) == (item.batch > 2))})
        for item in RUN.rounds
    ]
    run = RUN.model_copy(update={"rounds": tuple(item for item in rounds if item.blocks)})
    run = planned(run, targets=(ONE, TWO, GPU))
    found = rank_cpus(run, cells_of(run))
    assert found is not None
    assert found.targets == (1,)
    gpus = planned(RUN, targets=(GPU, Target(device="gpu:1"), Target(device="gpu:2")))
    assert rank_cpus(gpus, ANSWER) is None
    assert choice_line(gpus, ANSWER) == ""
    assert rank_cpus(RUN.model_copy(update={"plan": None}), ANSWER) is None


def test_between_batches_far_apart_the_interval_holds_a_fixed_cost_with_an_equal_one_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check the interval: log over log, a straight line from batch 1 to 32 lies up to 40 % above such a curve."""
    truth, gpu_ms = (0.16, 0.01), 0.16 + 0.01 * 6
    run = make_run(3, LOOK_BATCHES, noise=0.002)
    steps = {batch: truth[0] + truth[1] * batch for batch in LOOK_BATCHES}
    rounds = [
        item.model_copy(
            update={"blocks": tuple(b.model_copy(update={"step_ms": steps[item.batch]}) for b in item.blocks)}
        )
        for item in run.rounds
    ]
    run = run.model_copy(update={"rounds": tuple(rounds)})
    card = make_curve(lambda _: gpu_ms, BATCHES, -0.02, 0.02)
    found = cross(run, cells_of(run), card, 1)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 6 < found.high
    monkeypatch.setattr(crossing, "FAR_APART", 99.0)
    straight = cross(run, cells_of(run), card, 1)
    assert straight.high is not None
    assert straight.high < 6  # the reason for the wider interval


@pytest.mark.parametrize("cores", [1, 2, 4, 64])
def test_the_short_look_measures_every_setting_at_three_batches_in_three_starts(cores: int) -> None:
    plan = look_plan(Workload(network="784-128-10"), cores)
    assert plan.targets == cpu_settings(cores)
    assert {target.execution for target in plan.targets} == {"keras", "xla"}
    assert {target.threads for target in plan.targets} == ({1, cores // 2, cores} if cores > 1 else {None})
    assert (plan.batches, plan.refine, plan.trace) == (LOOK_BATCHES, False, False)
    assert 30 <= plan.budget_s <= 45
    assert holds_three_starts(plan)


def test_only_the_report_of_a_look_says_what_it_found() -> None:
    look, _ = ranked(FLOORS, SLOPES, (ONE, TWO, COMPILED), LOOK_BATCHES)
    assert look_lines(look, cells_of(look)) == (choice_line(look, cells_of(look)),)
    assert look_lines(RUN, ANSWER) == ()


def test_beside_a_gpu_a_sweep_proposes_the_cpu_as_someone_who_knows_it_sets_it() -> None:
    all_threads, compiled = Target(), Target(execution="xla")
    assert compared_targets((all_threads, GPU), 2) == (all_threads, GPU, compiled)
    assert compared_targets((all_threads, GPU), 16) == (all_threads, GPU, Target(threads=8), compiled)
    assert compared_targets((ONE, TWO), 2) == (ONE, TWO)
