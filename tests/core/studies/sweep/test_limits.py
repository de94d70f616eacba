"""Runs of the worst shape: impossible ones are refused, and the others are analysed in time that grows with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.analysis import statistics
from core.base.schema import MAX_KEYS, UserError
from core.rounds.answer import observations, overhead
from core.rounds.answer.analyse import analyse
from core.rounds.answer.observations import observe
from core.rounds.run import MAX_CELLS, MAX_NAME, MAX_PROCESSES, MAX_TRACES, MAX_WARNINGS
from core.rounds.show import export, imports
from core.rounds.show.imports import read_run
from core.rounds.study import Record
from core.studies.registry import read_any, read_record
from core.studies.sweep.kind import SWEEP
from tests.support.growth import MOST, growth
from tests.support.points import run_of

RUN = json.loads(run_of(lambda _: 2.0, (1, 2), processes=3, rounds=1).to_json())
PROCESS = {"pid": 1, "startup_ms": 1.0, "device": "", "index": 0, "target": 0}


def refusal(changed: dict[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        read_run(json.dumps(RUN | changed).encode(), "run.json")
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "item", "most"),
    [
        ("processes", PROCESS, MAX_PROCESSES),
        ("cells", {"target": 0, "batch": 1, "outcome": "measured"}, MAX_CELLS),
        ("warnings", {"code": "w", "text": ""}, MAX_WARNINGS),
    ],
)
def test_a_list_longer_than_any_sweep_makes_it_is_refused(field: str, item: dict[str, Any], most: int) -> None:
    assert re.search(rf"{field}: .*at most {most}", refusal({field: [item] * (most + 1)}))


def test_traces_and_names_have_limits() -> None:
    assert refusal({"traces": [{}] * (MAX_TRACES + 1)})
    assert f"at most {MAX_NAME} characters" in refusal({"target_names": ["x" * (MAX_NAME + 1), "b"]})


def test_the_first_wrong_item_ends_the_reading_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that reading ends: each error holds its input, and a million of them took gigabytes."""
    counts = []
    monkeypatch.setattr("core.base.schema.explain", lambda error: counts.append(error.error_count()) or "no.")
    refusal({"rounds": [{}] * 1000, "setups": [{}] * 1000, "traces": [{"device": {"steps": [{}] * 1000}}]})
    assert counts
    assert max(counts) < 30


def test_an_object_of_many_keys_and_a_number_of_many_digits_are_refused() -> None:
    assert f"{MAX_KEYS + 1:,} keys" in refusal({"environment": {str(i): 0 for i in range(MAX_KEYS + 1)}})
    assert "is too large" in refusal({"elapsed_s": 10**300})
    assert "is too large" in refusal({"setups": [[[-(10**30)]]]})


def test_a_text_that_is_no_record_is_not_read_once_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(Record, "from_data", classmethod(lambda cls, _: read.append(cls.__name__)))
    with pytest.raises(UserError, match="no study of"):
        read_any(json.dumps({"rounds": [], "surprise": 1}))
    assert read == []
    read_record(SWEEP, json.dumps(RUN))
    assert read == ["Run"]


@pytest.mark.parametrize(("limit", "most"), [("MAX_REPLICATES", 5), ("MAX_VALUES", 11)])
def test_more_starts_than_a_days_budget_holds_are_refused(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(lambda _: 2.0, (1, 2), processes=6, rounds=1)
    assert read_run(run.to_json().encode(), "run.json") == run
    monkeypatch.setattr(observations, limit, most)
    with pytest.raises(UserError, match="in 6 starts"):
        read_run(run.to_json().encode(), "run.json")
    with pytest.raises(UserError, match="in 6 starts"):
        analyse(run)
    rows = [f"{target},1,{process},{process},1.5" for process in range(12) for target in "ab"]
    with pytest.raises(UserError, match="in 12 starts"):
        read_run("\n".join(["target,batch,round,process,step_ms", *rows]).encode(), "run.csv")


def test_a_header_of_many_columns_is_refused_before_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(imports, "_one_line", lambda text: looked.append(text) or text)
    with pytest.raises(UserError, match="1,003 columns"):
        read_run(("target,batch,step_ms" + "," * 1_000).encode(), "run.csv")
    assert len(looked) <= 1  # only the refusal itself


def _observing(units: int) -> Callable[[], object]:
    run = run_of(lambda _: 2.0, (1,), processes=units, rounds=1)
    return lambda: observe(run)


def test_observing_grows_with_the_number_of_processes() -> None:
    assert growth(_observing, 1_500) < MOST


def _rows(cells: int) -> Callable[[], object]:
    run = run_of(lambda _: 2.0, range(1, cells + 1), rounds=1)
    answer = analyse(run)
    return lambda: export.cell_rows(run, answer)


def test_a_table_of_cells_grows_with_them() -> None:
    assert growth(_rows, 100) < MOST


def test_fits_within_single_processes_are_bounded_and_their_scatter_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = run_of(lambda b: 1.0 + b, (1, 4, 16, 64), processes=60, rounds=1, process_noise=0.05)
    every = overhead._spread(run, 0, 2.0)
    solved: list[float] = []
    solve = overhead.solve
    monkeypatch.setattr(overhead, "solve", lambda *given: solved.append(1) or solve(*given))
    monkeypatch.setattr(overhead, "MAX_FITTED", 20)
    some = overhead._spread(run, 0, 2.0)
    assert len(solved) == 20
    assert some == pytest.approx(every, rel=0.5)


def shared_by_pairs(values: np.ndarray) -> float:
    """Return the mean squared correlation, pair by pair."""
    squares, chance = [], []
    for i in range(values.shape[1]):
        for j in range(i):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            if both.sum() >= statistics.MIN_UNITS:
                a, b = values[both, i] - values[both, i].mean(), values[both, j] - values[both, j].mean()
                scale = float(a @ a * (b @ b))
                squares.append(float(a @ b) ** 2 / scale if scale > 0 else 1.0)
                chance.append(1 / (both.sum() - 1))
    expected = float(np.mean(chance))
    return max(0.0, (float(np.mean(squares)) - expected) / (1 - expected))


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_correlations_between_batches_are_those_of_each_pair(missing: float) -> None:
    rng = np.random.default_rng(3)
    for units, batches in ((3, 2), (6, 9), (12, 30)):
        values = rng.normal(size=(units, 1)) + 0.5 * rng.normal(size=(units, batches)) + 3.0
        values[1:][rng.random((units - 1, batches)) < missing * (units > 3)] = np.nan
        assert statistics.shared_scatter(values) == pytest.approx(shared_by_pairs(values), abs=1e-9)
    assert statistics.shared_scatter(np.full((5, 4), 2.5)) == 1.0
    assert statistics.shared_scatter(np.ones((5, 1))) == 1.0
