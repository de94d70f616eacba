"""Runs beside each other: their differences, one sentence each, and a row for each run."""

from core.rounds.answer.analyse import analyse
from core.rounds.answer.comparison import LETTERS, MAX_COMPARED, comparison_rows, differences, stated
from core.rounds.run import Run
from core.workload.spec import Pipeline, Target, Workload
from simulated.runs import make_environment, make_run, planned

RUN = make_run(1)


def elsewhere(run: Run, **changes: object) -> Run:
    return run.model_copy(update={"environment": make_environment().model_copy(update=changes)})


def test_runs_of_one_plan_on_one_machine_do_not_differ() -> None:
    assert differences([RUN, make_run(2), make_run(3)]) == ()
    assert len(LETTERS) == MAX_COMPARED


def test_each_thing_that_differs_is_a_sentence_that_names_the_runs() -> None:
    workload = RUN.plan.workload.model_copy(update={"mode": "infer"})
    other = planned(
        make_run(2), targets=(Target(), Target(device="gpu:0")), workload=workload, pipeline=Pipeline(kind="host")
    )
    assert differences([RUN, elsewhere(other, cpu="Another CPU", hostname_hash="x"), make_run(3)]) == (
        "Different networks. A and C: 784-128-10 (training, adam); B: 784-128-10 (inference).",
        "Different targets. A and C: CPU, 1 thread against CPU, 2 threads; B: CPU against GPU 0.",
        "Different machines. A and C: Example CPU at 2.4 GHz (4 cores); B: Another CPU (4 cores).",
        "Different pipelines. A and C: data resident on the device; B: host array fed each step.",
    )


def test_targets_of_different_runs_that_read_alike_alone_do_not_read_alike_together() -> None:
    jax = planned(make_run(2), targets=tuple(Target(threads=count, framework="jax") for count in (1, 2)))
    assert jax.names == RUN.names
    (sentence,) = differences([RUN, jax])
    assert "A: TensorFlow, 1" in sentence
    assert "B: JAX, 1" in sentence


def test_machines_of_one_make_are_told_apart() -> None:
    twin, third = (elsewhere(make_run(seed), hostname_hash=f"{seed}") for seed in (2, 3))
    cpu = "Example CPU at 2.4 GHz (4 cores)"
    rows = comparison_rows([RUN, twin, RUN, third], [analyse(RUN)] * 4)
    assert [row.machine for row in rows] == [cpu, f"{cpu}, machine 2", cpu, f"{cpu}, machine 3"]


def test_imported_points_say_what_is_not_known() -> None:
    bare = RUN.model_copy(update={"plan": None, "environment": None, "target_names": ("Xeon", "Card")})
    (_, row) = comparison_rows([RUN, bare], [analyse(RUN), analyse(bare)])
    assert (row.letter, row.machine, row.targets, row.day) == ("B", "unknown", "Xeon against Card", "2026-01-05")
    assert row.verdict == analyse(bare).verdict.sentence
    assert "B: unknown" in differences([RUN, bare])[0]


def test_another_network_comes_last_and_is_not_set_against_the_first() -> None:
    slower, other = make_run(2, slopes_ms=(0.04, 0.01), floors_ms=(0.6, 0.8)), make_run(3)
    runs = (RUN, planned(other, workload=Workload(network="100-32-10")), slower)
    first, last = stated(runs, [analyse(run) for run in runs])
    assert first.startswith("C against A: the crossover is at batch 13 ")
    assert last.startswith("B is of another network")


def test_a_batch_can_be_chosen_and_a_clear_curve_is_said_as_a_whole() -> None:
    one, two = make_run(4, floors_ms=(0.9, 0.4)), make_run(5, slopes_ms=(0.04, 0.01), floors_ms=(1.9, 0.4))
    answers = [analyse(run) for run in (one, two)]
    assert "from batch 1 to 1,024 " in stated((one, two), answers)[0]
    assert "at batch 8 the speed-up is 2." in stated((one, two), answers, 8)[0]
    assert "at batch 1,024 " in stated((one, two), answers, 7)[0]
