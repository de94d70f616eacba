"""The surface against known truths: as close to the break-even as a full grid at a quarter of its cost; coverage."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchmarks.frontier import NOISY
from core.analysis.gaussian_process import Parameters
from core.studies.frontier.answer import FrontierAnswer, band_of, frontier_answer
from core.studies.frontier.record import FrontierOutcome, Setting
from core.studies.frontier.surface import coordinates, fit_map, next_seed, next_setting, runs_at, seeds, units_of
from simulated.frontiers import (
    SMALL,
    Tie,
    full_grid,
    held,
    interpolated,
    machine,
    make_plan,
    make_study,
    measure,
    position_errors,
    random_truth,
    surface,
    true_ties,
    widths,
    wrongly_sure,
)

QUARTER = 128  # of 8 × 8 × 8
PARAMETERS = Parameters(signal=1.0, start=0.05, drift=0.02, unit=0.03, lengths=(4.0, 4.0, 4.0))


@dataclass(frozen=True)
class Compared:
    answer: FrontierAnswer
    visits: int
    ties: list[Tie]
    adaptive: np.ndarray
    full: np.ndarray


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    """Measure the adaptive map and the full grid, with the same rounds in every cell and the same noise, on known
    truths.
    """
    found = []
    for seed in range(6):
        truth, plan = random_truth(seed, kink=seed % 2 == 1), make_plan()
        ties = list(true_ties(truth, plan))
        study = measure(machine(truth, seed), plan)
        answer = frontier_answer(study)
        whole = full_grid(machine(truth, seed), plan)
        assert len(whole.measured) == 512
        found.append(
            Compared(
                answer,
                len(units_of(study.rounds)),
                ties,
                position_errors(ties, surface(answer)),
                position_errors(ties, interpolated(whole)),
            )
        )
    return found


@pytest.mark.statistical
def test_a_quarter_of_the_grid_gives_the_same_contour(compared: list[Compared]) -> None:
    for one in compared:
        assert one.visits <= QUARTER
        assert len(one.ties) > 30
    adaptive = np.concatenate([one.adaptive for one in compared])
    full = np.concatenate([one.full for one in compared])
    assert np.median(adaptive) <= np.median(full)
    assert np.quantile(adaptive, 0.9) <= 1.1 * np.quantile(full, 0.9)
    assert np.quantile(adaptive, 0.9) < 0.25  # of an octave


@pytest.mark.statistical
def test_the_band_holds_the_true_contour(compared: list[Compared]) -> None:
    inside = np.mean([np.mean(held(one.ties, one.answer)) for one in compared])
    assert inside >= 0.93
    assert np.median(np.concatenate([widths(one.ties, one.answer) for one in compared])) < 1.3  # octaves


@pytest.mark.statistical
def test_one_band_for_the_map_calls_no_setting_wrong_where_bands_of_their_own_do() -> None:
    alone = []
    for seed in range(10):
        truth = random_truth(seed, kink=True)
        study = measure(machine(truth, seed, NOISY), make_plan())
        answer = frontier_answer(study)
        assert wrongly_sure(truth, answer) == 0
        alone.append(wrongly_sure(truth, answer, band_of(study)))
        clear = np.mean([abs(cell.mean) > answer.band * cell.sd for cell in answer.cells])
        assert clear > 0.6, "what nearly ties is the smaller part of the map"
    assert any(alone)


@pytest.mark.statistical
def test_time_is_spent_where_the_targets_tie(compared: list[Compared]) -> None:
    for seed, one in enumerate(compared):
        truth = random_truth(seed, kink=seed % 2 == 1)
        places = np.array(one.answer.study.plan.grid, dtype=float)
        everywhere = np.median(np.abs(truth.log2_speed_up(places)))
        units = units_of(one.answer.study.rounds)
        chosen = np.array([one.answer.study.plan.settings[unit.setting] for unit in units], dtype=float)
        assert np.median(np.abs(truth.log2_speed_up(chosen))) < 0.3 * everywhere
        assert len(units) > 1.2 * len({unit.setting for unit in units}), "near ties come again in later starts"


def test_units_take_the_median_and_shrug_off_a_stall() -> None:
    study = make_study()
    units = units_of(study.rounds)
    assert {(u.setting, u.start) for u in units} == {(r.setting, r.blocks[0].process) for r in study.rounds}
    first = study.rounds[0]
    stalled = first.model_copy(
        update={"blocks": tuple(b.model_copy(update={"step_ms": b.step_ms * (9 - 8 * b.target)}) for b in first.blocks)}
    )
    moved = units_of((stalled, *study.rounds[1:]))
    change = {(u.setting, u.start): u.value for u in units}
    assert max(abs(u.value - change[u.setting, u.start]) for u in moved) < 0.1


def test_coordinates_are_octaves_from_the_middle_of_the_axes_that_vary() -> None:
    plan = make_plan(depths=(2,), widths=(16, 1024), batches=(1, 64))
    x = coordinates(plan, np.array([[2, 16, 1], [2, 256, 64]], dtype=float))
    assert x == pytest.approx(np.array([[-3.0, -3.0], [1.0, 3.0]]))


def test_seeds_are_corners_and_centre_by_rising_work() -> None:
    plan = make_plan()
    found = [plan.settings[i] for i in seeds(plan)]
    assert len(found) == 9
    assert found[0] == (1, 16, 1)
    assert found[-1] == (8, 1024, 1024)
    assert Setting(5, 172, 53) in found


def test_a_seed_that_cannot_be_afforded_gives_way_to_its_nearest_neighbour() -> None:
    plan = make_plan()
    wanted = seeds(plan)
    cost_s = np.ones(len(plan.settings))
    cost_s[wanted[0]] = np.inf
    assert plan.settings[next_seed(plan, set(), cost_s) or 0] in {(1, 29, 1), (1, 16, 3), (2, 16, 1)}
    assert next_seed(plan, set(range(9)), cost_s) is None
    assert next_seed(plan, set(), np.full(len(plan.settings), np.inf)) is None


def test_the_next_setting_is_in_doubt_cheap_and_not_yet_visited() -> None:
    study = make_study()
    found = fit_map(study.plan, units_of(study.rounds)[:6], PARAMETERS)
    even = np.ones(len(study.plan.settings))
    first = next_setting(found, set(), even)
    assert first is not None
    mean, sd = found.at(np.array([study.plan.settings[first]], dtype=float))
    assert abs(mean[0]) < 1.96 * sd[0]
    assert next_setting(found, {first}, even) != first
    dear = even.copy()
    dear[first] = 1e6
    assert next_setting(found, set(), dear) != first
    dear[:] = np.inf
    assert next_setting(found, set(), dear, anyhow=True) is None


def test_what_is_clear_is_measured_only_when_asked_anyhow() -> None:
    study = make_study()
    raised = [replace(unit, value=unit.value + 60.0) for unit in units_of(study.rounds)]
    found = fit_map(study.plan, raised, PARAMETERS)
    cost_s = np.ones(len(study.plan.settings))
    assert next_setting(found, set(), cost_s) is None
    assert next_setting(found, set(), cost_s, anyhow=True) is not None


def test_nothing_larger_than_a_setting_that_failed_is_said_to_run() -> None:
    study = make_study()
    index = study.plan.settings.index(Setting(2, 256, 64))
    lost = FrontierOutcome(setting=index, target=1, outcome="out_of_memory")
    rounds = tuple(r for r in study.rounds if r.setting != index)
    failed = study.model_copy(update={"outcomes": (lost,), "rounds": rounds})
    places = np.array([[2, 256, 64], [4, 1024, 512], [2, 255, 64], [4, 1024, 63]], dtype=float)
    assert runs_at(failed, places).tolist() == [False, False, True, True]
    nan = study.model_copy(update={"outcomes": (lost.model_copy(update={"outcome": "nan_loss"}),), "rounds": rounds})
    assert runs_at(nan, places).all()


def test_a_tie_everywhere_has_no_frontier() -> None:
    truth = random_truth(0)
    same = type(truth)((truth.sides[0], truth.sides[0]), truth.q)
    answer = frontier_answer(measure(machine(same, 3), make_plan(**SMALL)))
    assert answer.code == "unresolved"
