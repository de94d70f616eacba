"""Interference becomes warnings with their numbers."""

from core.evidence import Interference, ProcessUse
from core.studies.sweep.analyse import analyse
from core.studies.sweep.record import Run
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
        "neighbour: Other processes (mostly backup) used 99 % of a core during 28 of 56 rounds."
        in with_interference(neighbour, 0.5)
    )
    assert not any(text.startswith("neighbour") for text in with_interference(neighbour, 0.05))


def test_steal_throttling_and_sharing_are_said() -> None:
    assert any(t.startswith("steal:") for t in with_interference(Interference(other_cpu_pct=0.0, steal_pct=20.0), 0.3))
    slowed = with_interference(Interference(throttled=True), 0.3)
    assert "gpu_slowed: Heat or the hardware slowed the GPU down in 16 of 16 rounds in which it was seen." in slowed
    assert any(t.startswith("throttled:") for t in with_interference(Interference(cpu_mhz=1200.0), 0.3))
    assert any("python train.py" in t for t in with_interference(Interference(gpu_shared_by=("python train.py",)), 0.1))


def test_a_quiet_machine_is_not_warned_about() -> None:
    quiet = with_interference(Interference(other_cpu_pct=1.0, steal_pct=0.0, cpu_mhz=3000.0, throttled=False), 1.0)
    assert {text.split(":")[0] for text in quiet} == {"single_process"}


def test_rounds_of_one_target_are_counted_out() -> None:
    run = run_of(lambda b: 0.5 * b**0.3)
    rounds = tuple(r.model_copy(update={"blocks": r.blocks[:1]}) if r.batch == 64 else r for r in run.rounds)
    assert any(t.startswith("unpaired_rounds: 8 rounds") for t in texts(run.model_copy(update={"rounds": rounds})))
