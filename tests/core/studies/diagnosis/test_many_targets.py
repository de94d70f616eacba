"""A diagnosis of a run with three or more targets compares two; with one target there is nothing to compare."""

import pytest

from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.studies.diagnosis.answer import compared, diagnose, is_behind
from core.studies.diagnosis.run import default_batch, default_target
from simulated.diagnoses import make_diagnosis
from tests.support.targets import run_of

RUN, ONE = run_of(3), run_of(1)


def test_a_target_is_compared_with_the_baseline_and_the_baseline_with_the_fastest() -> None:
    pair, target = compared(RUN, 2, 64)
    assert (pair.names, target) == (("CPU, 1 thread", "GPU 0, mixed precision"), 1)
    assert compared(RUN, 0, 64)[0].names[1] == "GPU 0"
    assert compared(RUN, 0, 1024)[0].names[1] == "GPU 0, mixed precision"
    assert compared(ONE, 0, 64) == (ONE, 0)
    with pytest.raises(UserError, match="of target 4, and the run has 3 targets"):
        compared(RUN, 3, 64)


def test_behind_is_behind_the_baseline_and_the_baseline_behind_any() -> None:
    answer = analyse(RUN)
    assert [is_behind(answer, target, 1) for target in range(3)] == [False, True, True]
    assert [is_behind(answer, target, 1024) for target in range(3)] == [True, False, False]
    assert not is_behind(analyse(ONE), 0, 64)
    assert (default_target(RUN), default_target(ONE)) == (1, 0)
    assert default_batch(ONE, analyse(ONE), 0) == 32


@pytest.mark.parametrize("run", [RUN, ONE], ids=["three", "one"])
def test_what_it_says_names_the_targets(run) -> None:
    told = diagnose(run, make_diagnosis(run, {"xla": 1.4}, target=min(1, len(run.names) - 1)))
    crossover = next(finding.crossover for finding in told.findings if finding.family == "xla")
    assert ("single target" in crossover) is (run is ONE)
    assert not any(notation in told.sentence for notation in run.target_names)
