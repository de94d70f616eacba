"""The shipped example: read from the package's data, with the schema checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import examples
from core.analysis.analyse import analyse
from core.analysis.batch import batch_answer, limit_of
from core.analysis.findings import diagnose
from core.analysis.frontier_answer import frontier_answer
from core.analysis.pipeline import pipeline_answer
from core.results import Run
from tests.support.runs import make_run


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    examples.load_example.cache_clear()
    monkeypatch.setattr(examples, "EXAMPLE_FILE", tmp_path / "example.json")


def test_example_is_read_back_unchanged() -> None:
    run = make_run(1)
    examples.EXAMPLE_FILE.write_text(run.to_json(), encoding="utf-8")
    assert examples.load_example() == run


def test_a_damaged_example_is_refused() -> None:
    examples.EXAMPLE_FILE.write_text('{"schema_version": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="no Breakeven run"):
        examples.load_example()
    examples.load_example.cache_clear()


SHIPPED = Path(examples.__file__).parent / "data"


def test_what_is_shipped_is_recorded_and_belongs_together() -> None:
    run = Run.from_json((SHIPPED / "example.json").read_bytes())
    assert run.label == "recorded"
    assert run.environment is not None
    assert analyse(run).verdict.kind == "crossover"
    assert {(t.target, t.batch) for t in run.traces} >= {(0, 1), (1, 1), (0, 1024), (1, 1024)}
    diagnosis = examples.load_example_diagnosis()
    assert diagnosis.run_id == run.id
    assert diagnosis.experiment.label == "recorded"
    assert {rerun.run.label for rerun in diagnosis.reruns} <= {"recorded"}
    assert diagnose(run, diagnosis).findings[0].gain is not None
    study = examples.load_example_pipeline()
    assert study.label == "recorded"
    assert pipeline_answer(study).sentence


def test_the_shipped_frontier_resolves_where_its_targets_tie() -> None:
    study = examples.load_example_frontier()
    answer = frontier_answer(study)
    assert (study.label, study.status, study.starts >= 3) == ("recorded", "finished", True)
    assert answer.code == "frontier"
    assert len(study.measured) < len(study.plan.grid) / 2
    assert {point.label for point in answer.points} == {"recorded"}


def test_the_shipped_studies_of_the_batch_belong_to_the_shipped_run() -> None:
    run = Run.from_json((SHIPPED / "example.json").read_bytes())
    noise, memory = examples.load_example_noise(), examples.load_example_memory()
    assert {noise.run_id, memory.run_id} == {run.id}
    assert {noise.label, memory.label} == {"recorded"}
    assert run.plan is not None
    assert noise.plan.workload == memory.plan.workload == run.plan.workload
    assert memory.plan.target == run.plan.targets[1]
    limit = limit_of(memory, ())
    told = batch_answer(run, analyse(run), noise, {run.target_names[1]: limit})
    assert (limit.label, limit.limit_bytes) == ("recorded", memory.plan.limit_bytes)
    assert told.noise is not None
    assert told.noise.steps is not None
    assert told.targets[1].best_time is not None
