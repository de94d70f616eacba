"""Interference becomes warnings with numbers."""

import re
from typing import Any

import pytest

from core.base.evidence import Block, Interference, Process, ProcessUse
from core.rounds.answer.analyse import analyse
from core.rounds.answer.reliability import of_targets
from core.rounds.run import Round, Run
from core.workload.spec import Target
from simulated.sweeps import new_run, plan
from tests.support.points import run_of


def with_interference(found: Interference, share: float) -> set[str]:
    run = run_of(lambda b: 0.5 * b**0.3)
    noisy = int(share * len(run.rounds))
    rounds = tuple(
        r.model_copy(update={"interference": found if i < noisy else Interference(other_cpu_pct=0.0, cpu_mhz=3000.0)})
        for i, r in enumerate(run.rounds)
    )
    return texts(run.model_copy(update={"rounds": rounds}))


def texts(run: Run) -> set[str]:
    return {f"{w.code}: {w.text}" for w in analyse(run).verdict.warnings}


def test_a_neighbour_is_named_with_its_share_of_rounds() -> None:
    neighbour = Interference(other_cpu_pct=99.0, busiest=(ProcessUse(name="backup", cpu_pct=98.0),), cpu_mhz=3000.0)
    assert (
        "neighbour: Other processes (mostly backup) used 99 % of a core during 63 of 126 rounds."
        in with_interference(neighbour, 0.5)
    )
    assert not any(text.startswith("neighbour") for text in with_interference(neighbour, 0.05))


def test_steal_throttling_and_sharing_are_said() -> None:
    assert any(t.startswith("steal:") for t in with_interference(Interference(other_cpu_pct=0.0, steal_pct=20.0), 0.3))
    slowed = with_interference(Interference(throttled=True), 0.3)
    assert any("37 of 37" in text for text in slowed)
    assert any(t.startswith("throttled:") for t in with_interference(Interference(cpu_mhz=1200.0), 0.3))
    assert any("python train.py" in t for t in with_interference(Interference(gpu_shared_by=("python train.py",)), 0.1))


def test_a_quiet_machine_is_not_warned_about() -> None:
    quiet = with_interference(Interference(other_cpu_pct=1.0, steal_pct=0.0, cpu_mhz=3000.0, throttled=False), 1.0)
    assert quiet == set()


def test_rounds_of_one_target_are_counted_out() -> None:
    run = run_of(lambda b: 0.5 * b**0.3)
    rounds = tuple(r.model_copy(update={"blocks": r.blocks[:1]}) if r.batch == 64 else r for r in run.rounds)
    assert any(t.startswith("unpaired_rounds: 18 rounds") for t in texts(run.model_copy(update={"rounds": rounds})))


def cpu_run(slow_ms: float = 83.0, threads: int | None = 2, cores: float | None = None, rounds: int = 60) -> Run:
    """Return a run whose CPU target takes 4 ms in even rounds and ``slow_ms`` in odd ones, in two processes."""
    targets = (Target(threads=threads, framework="torch"), Target(device="gpu:0", framework="torch"))
    found = []
    for index in range(rounds):
        step_ms = (slow_ms if index % 2 else 4.0) * (1 + 0.001 * index)
        cpu_ms = None if cores is None else 10 * step_ms * cores
        blocks = (
            Block(target=0, process=index // 4 % 2, steps=10, step_ms=step_ms, cpu_ms=cpu_ms),
            Block(target=1, process=index // 4 % 2, steps=10, step_ms=5 + 0.001 * index, cpu_ms=10.0),
        )
        found.append(Round(index=index, batch=32, blocks=blocks))
    return new_run(plan("32,64", targets=targets)).model_copy(update={"rounds": tuple(found)})


def said(run: Run, code: str) -> str:
    found = [warning.text for warning in of_targets(run) if warning.code == code]
    return found[0] if found else ""


def test_step_times_with_two_modes_are_said_with_both_and_the_likely_reason() -> None:
    text = said(cpu_run(), "two_modes_0")
    assert re.fullmatch(
        r"CPU, 2 threads: a step at batch 32 takes either 4\.\d+ ms or (8\d\.\d) ms \(\1 ms in 30 of 60 rounds\): "
        r"its threads probably wait by spinning while another process holds a core\.",
        text,
    )
    assert said(cpu_run(threads=1), "two_modes_0").endswith(
        "another process probably held its core in the slower rounds."
    )
    assert said(cpu_run(slow_ms=4.4), "two_modes_0") == ""
    assert said(cpu_run(), "two_modes_1") == ""


def test_modes_that_go_with_worker_processes_are_said_to() -> None:
    run = cpu_run()
    rounds = tuple(
        item.model_copy(update={"blocks": tuple(b.model_copy(update={"process": item.index % 2}) for b in item.blocks)})
        for item in run.rounds
    )
    assert "process starts" in said(run.model_copy(update={"rounds": rounds}), "two_modes_0")


@pytest.mark.parametrize(
    ("threads", "cores", "warned"), [(1, 1.05, False), (1, 1.9, True), (2, 2.2, False), (2, 3.0, True)]
)
def test_more_cores_than_threads_are_said(threads: int, cores: float, warned: bool) -> None:
    text = said(cpu_run(slow_ms=4.0, threads=threads, cores=cores), "threads_0")
    assert bool(text) == warned
    if warned:
        assert f"asked for {threads} thread" in text
        assert f"used {cores:.1f} cores" in text


def test_cores_that_were_not_recorded_or_limited_are_no_matter() -> None:
    assert said(cpu_run(slow_ms=4.0, threads=1, cores=None), "threads_0") == ""
    assert said(cpu_run(slow_ms=4.0, threads=None, cores=8.0), "threads_0") == ""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_answer_says_so_however_many_targets_there_are(count: int) -> None:
    found = cpu_run(threads=1, cores=1.9)
    targets = (*found.plan.targets, Target(threads=2))[:count]
    rounds = tuple(
        item.model_copy(
            update={"blocks": tuple(item.blocks[0].model_copy(update={"target": target}) for target in range(count))}
        )
        for item in found.rounds
    )
    run = new_run(plan("32,64", targets=targets)).model_copy(update={"rounds": rounds})
    codes = {warning.code for warning in analyse(run).verdict.warnings}
    assert {"two_modes_0", "threads_0"} <= codes


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (
            {"niceness": 15},
            "Worker processes ran at niceness 15, so that all others came before",
        ),
        ({"inherited_threads": {"OMP_NUM_THREADS": "1"}}, "Worker processes inherited OMP_NUM_THREADS=1, which limits"),
        ({"niceness": 0, "inherited_threads": {}}, ""),
        ({}, ""),
    ],
)
def test_workers_that_were_held_back_are_said(held: dict[str, Any], words: str) -> None:
    process = Process(index=0, target=0, pid=1, startup_ms=1.0, device="CPU:0", **held)
    run = cpu_run(threads=1).model_copy(update={"processes": (process,)})
    assert Run.from_json(run.to_json()) == run
    found = said(run, "hindered")
    assert found.startswith(words) if words else not found
