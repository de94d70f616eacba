"""Recordings of real machines, quiet and busy: equal targets give no claim, and no chart looks more exact than it is.

In ``aa*`` both targets are the same; the others compare one thread with two.
"""

import math
from functools import cache
from pathlib import Path

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.answer.observations import MIN_UNITS, observe, observe_alone
from core.rounds.run import Run

FOLDER = Path(__file__).parents[4].parent / "shared" / "data" / "busy"
NAMES = [path.stem for path in sorted(FOLDER.glob("*.json"))]
EQUAL = [name for name in NAMES if name.startswith("aa")]
pytestmark = pytest.mark.skipif(not NAMES, reason="needs the recordings in ../shared/data/busy")
NARROWEST = 1.15


@cache
def recorded(name: str) -> Run:
    return Run.from_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@cache
def answered(name: str) -> Answer:
    return analyse(recorded(name))


def cut_short(run: Run, share: float) -> Run:
    """Return the run as a press of *Cancel* would have left it after that share of its rounds."""
    rounds = run.rounds[: math.ceil(share * len(run.rounds))]
    newest = max(item.process for item in rounds)
    processes = tuple(process for process in run.processes if process.index <= newest)
    return run.model_copy(update={"rounds": rounds, "processes": processes, "status": "cancelled"})


@pytest.mark.parametrize("name", EQUAL)
def test_equal_targets_give_no_claim(name: str) -> None:
    assert answered(name).claims == ()


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("name", EQUAL)
def test_equal_targets_cut_short_give_no_claim(name: str, share: float) -> None:
    assert analyse(cut_short(recorded(name), share)).claims == ()


@pytest.mark.parametrize("name", [name for name in NAMES if name in {"ab45", "ab90_cnn_lstm_first"}])
def test_batches_of_one_start_give_no_narrow_crossover(name: str) -> None:
    for found in answered(name).verdict.crossovers:
        assert found.low is None or found.high > 2 * found.low


@pytest.mark.parametrize("name", [name for name in NAMES if name == "ab90_default_quiet1"])
def test_the_first_press_on_a_quiet_machine_gives_one_crossover_at_most(name: str) -> None:
    assert len(answered(name).verdict.crossovers) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_no_crossover_is_contradicted_by_the_table_of_speed_ups(name: str) -> None:
    answer = answered(name)
    for found in answer.verdict.crossovers:
        above = [each for each in answer.speed_ups if found.high is not None and each.batch >= found.high]
        later = [c for c in answer.verdict.crossovers if c.batch > found.batch]
        if not later:
            second = found.ahead_after == answer.verdict.targets[1]
            assert all((each.ratio > 1) is second for each in above)


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_fewer_than_three_starts_have_no_thin_band(name: str) -> None:
    run, answer = recorded(name), answered(name)
    table = observe(run)
    few = {int(batch) for batch, count in zip(table.batches, table.counts, strict=True) if count < MIN_UNITS}
    widths = [each.high / each.low for each in answer.speed_ups if each.batch in few and each.low is not None]
    for target in (0, 1):
        alone = observe_alone(run, target)
        thin = {int(batch) for batch, count in zip(alone.batches, alone.counts, strict=True) if count < MIN_UNITS}
        widths += [
            cell.high_ms / cell.low_ms
            for cell in answer.cells
            if cell.target == target and cell.batch in thin and cell.low_ms is not None
        ]
    assert widths
    assert min(widths) > NARROWEST
