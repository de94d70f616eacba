"""The shipped examples: read from the package's data, with the schema checked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.base.claims import Claim
from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.studies import registry
from core.studies.batch.answer import batch_answer, limit_of
from core.studies.diagnosis.answer import diagnose
from core.studies.frontier.answer import frontier_answer
from core.studies.kind import Context
from core.studies.pipeline.answer import pipeline_answer
from core.studies.registry import SWEEPS, kind_of, kinds, load_example, read_any, read_record, sweep_example
from core.studies.serving.answer import served_answer
from core.ui.overhead.words import kernel_share
from core.workload.spec import Target
from simulated.runs import make_run


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Replace the folder of examples by another one."""
    load_example.cache_clear()
    monkeypatch.setattr(registry, "DATA", tmp_path)
    yield tmp_path
    load_example.cache_clear()


def test_example_is_read_back_unchanged(data: Path) -> None:
    run = make_run(1)
    (data / "example.json").write_text(run.to_json(), encoding="utf-8")
    assert load_example("sweep") == run


def test_a_damaged_example_is_refused(data: Path) -> None:
    (data / "example.json").write_text('{"schema_version": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="no Breakeven run"):
        load_example("sweep")


@pytest.mark.parametrize("name", sorted(kinds()))
def test_every_kind_says_what_its_example_says(name: str) -> None:
    kind, record = kind_of(name), load_example(name)
    if record is None:
        assert kind.example is None
        return
    context = Context(run=load_example("sweep"))
    answer = kind.answer(record, context)
    assert kind.text(record, answer, context).splitlines()[0]
    exported = kind.export(record, answer, context)
    assert read_record(kind, json.dumps(exported)) == record
    assert read_any(json.dumps(exported)) == (kind, record)


def test_what_is_shipped_is_recorded_and_belongs_together() -> None:
    run = load_example("sweep")
    assert run.label == "recorded"
    assert run.environment is not None
    verdict = analyse(run).verdict
    assert verdict.reason == "straddles_at_smallest"
    assert {Claim.AHEAD_IN_PART, Claim.LEAD} <= set(verdict.claims), "an example decides something"
    assert {(t.target, t.batch) for t in run.traces} >= {(0, 1), (1, 1), (0, 1024), (1, 1024)}
    diagnosis = load_example("diagnosis")
    assert diagnosis.run_id == run.id
    assert diagnosis.experiment.label == "recorded"
    assert {rerun.run.label for rerun in diagnosis.reruns} <= {"recorded"}
    assert diagnose(run, diagnosis).findings[0].gain is not None
    study = load_example("pipeline")
    assert study.label == "recorded"
    assert pipeline_answer(study).sentence


@pytest.mark.parametrize("which", SWEEPS)
def test_a_further_sweep_is_found_by_the_beginning_of_its_id(which: str) -> None:
    run = sweep_example(which)
    assert run.label == "recorded"
    assert run.id.startswith(f"example-{which}")
    assert analyse(run).verdict.sentence


@pytest.mark.parametrize("which", ["gpu", "gpu-training"])
def test_the_shipped_gpus_were_real_and_traced(which: str) -> None:
    run = sweep_example(which)
    assert run.environment is not None
    assert (run.environment.hostname_hash, run.environment.gpus[0].uuid_hash) == ("", None)
    gpu = run.plan.targets.index(Target(device="gpu:0"))
    traced = [cell for cell in run.traces if cell.target == gpu]
    assert {cell.device.device for cell in traced} == {"GPU:0"}
    assert all(kernel_share(cell) for cell in traced)
    assert {"gpu": Claim.AHEAD_IN_PART in analyse(run).verdict.claims, "gpu-training": run.plan.workload.training}[
        which
    ]
    assert any(window.card is not None and window.card.energy_j for window in run.energy if window.target == gpu)


def test_the_shipped_frontier_resolves_where_its_targets_tie() -> None:
    study = load_example("frontier")
    answer = frontier_answer(study)
    assert (study.label, study.status, study.starts >= 3) == ("recorded", "finished", True)
    assert answer.code == "frontier"
    assert len(study.measured) < 2 / 3 * len(study.plan.grid)
    assert {point.label for point in answer.points} == {"recorded"}


def test_the_shipped_served_requests_belong_to_the_shipped_run_and_bracket_its_capacity() -> None:
    run, study = sweep_example("inference"), load_example("serving")
    assert run.plan is not None
    assert (study.label, study.run_id, run.plan.pipeline.kind) == ("recorded", run.id, "host")
    assert study.plan.targets == run.plan.targets
    for target in served_answer(study).targets:
        assert target.agrees
        assert target.keeps < target.misses < 1.1 * target.keeps


def test_the_shipped_studies_of_the_batch_belong_to_the_shipped_run() -> None:
    run = load_example("sweep")
    noise, memory = load_example("noise"), load_example("memory")
    assert {noise.run_id, memory.run_id} == {run.id}
    assert {noise.label, memory.label} == {"recorded"}
    assert noise.plan.workload == memory.plan.workload == run.plan.workload
    assert memory.plan.target == run.plan.targets[1]
    limit = limit_of(memory, ())
    told = batch_answer(run, analyse(run), noise, {run.target_names[1]: limit})
    assert (limit.label, limit.limit_bytes) == ("recorded", memory.plan.limit_bytes)
    assert told.noise.steps is not None
    assert told.targets[1].best_time is not None
