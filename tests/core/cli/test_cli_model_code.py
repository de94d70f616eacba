"""``--model``: user code is described and measured because of the flag, and never for another reason."""

from pathlib import Path
from typing import Any

import pytest

from core.cli.files import BadInput
from core.cli.model_code import launcher_for, network_from_code
from core.networks.families import LayerCount, network_from_name
from core.networks.families.code import Code
from core.rounds.plan import SweepPlan
from core.rounds.show.imports import read_run
from core.worker.protocol import CellFailed, Describe, Described, Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload
from simulated.commands import TARGETS, Command, done, holds, refused
from simulated.runs import make_run, planned
from simulated.simulation import Machine

ENTRY = "net.models:make"
MODULE = """
import keras
from simulated.commands import holds
def make():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
"""
DESCRIBED = Described(
    name="sequential",
    input_shape=(6,),
    classes=3,
    layers=(
        {"name": "dense"} | dict.fromkeys(("parameters", "forward_flops", "weight_gradient_flops", "activations"), 8)
        | {"input_gradient_flops": 0},
    ),
)  # fmt: skip


def make_code(folder: Path, entry: str = ENTRY) -> Code:
    return Code(
        entry=entry, folder=str(folder), sample_shape=(6,), outputs=3, counts=(LayerCount("dense", 8, 8, 8, 0, 8),)
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current folder one with a module in it."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Describer:
    """A worker that describes, or fails to."""

    def __init__(self, asked: list[Any], answer: Described | CellFailed) -> None:
        self._asked, self._answer = asked, answer

    def ask(self, request: Describe, _: float) -> Described:
        self._asked.append(request)
        if isinstance(self._answer, CellFailed):
            raise self._answer
        return self._answer

    def close(self) -> None:
        self._asked.append("closed")


@pytest.fixture
def asked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the started workers and their requests; those for a sweep are simulated."""
    seen: list[Any] = []

    def launch(
        targets: tuple[Target, ...], deadline_s: float, *_: object, allow_code: bool = False, **__: object
    ) -> Any:
        seen.append((tuple(map(str, targets)), allow_code))
        return (Describer(seen, DESCRIBED),) if len(targets) == 1 else machine.launch(targets, deadline_s)

    monkeypatch.setattr("core.worker.process.launch_processes", launch)
    return seen


def test_model_is_described_by_one_worker_and_measured_by_workers_that_may_import_it(
    cli: Command, asked: list[Any], project: Path
) -> None:
    _, err = done(cli("sweep", "--model", ENTRY, *TARGETS, "--budget", "20", "--out", project / "run.json"))
    holds(err, f"{ENTRY} (training, adam)", "8 parameters")
    assert asked[:3] == [(("cpu",), True), Describe(entry=ENTRY, folder=str(project)), "closed"]
    assert len(asked) > 3
    assert all(start == (("cpu,threads=1", "cpu,threads=2"), True) for start in asked[3:])
    run = read_run((project / "run.json").read_bytes(), "run.json")
    assert run.plan.workload.network == make_code(project)


def test_workers_of_any_other_network_may_import_nothing(cli: Command, asked: list[Any]) -> None:
    assert cli("sweep", *TARGETS, "--budget", "20", "--no-store")[0] == 0
    assert asked
    assert not any(allowed for _, allowed in asked)


def plan_file(path: Path, network: Code) -> Path:
    plan = SweepPlan(
        workload=Workload(network=network), targets=(Target(threads=1), Target(threads=2)), batches=(1, 8), budget_s=20
    )
    path.write_text(plan.model_dump_json())
    return path


def test_a_plan_that_names_code_is_refused_without_the_flag_before_a_worker_starts(
    cli: Command, asked: list[Any], project: Path
) -> None:
    path = plan_file(project / "plan.json", make_code(project))
    assert f"--model {ENTRY}." in refused(cli("sweep", "--plan", path))
    assert "not by net.models:other" in refused(cli("sweep", "--plan", path, "--model", "net.models:other"))
    elsewhere = plan_file(project / "elsewhere.json", make_code(project / "net"))
    assert f"was found in {project / 'net'}; run" in refused(cli("sweep", "--plan", elsewhere, "--model", ENTRY))
    assert asked == []
    assert cli("sweep", "--plan", path, "--model", ENTRY, "--no-store")[0] == 0
    assert {allowed for _, allowed in asked} == {True}


def test_a_run_that_names_code_is_diagnosed_with_the_flag_only(
    cli: Command, machine: Machine, asked: list[Any], project: Path
) -> None:
    machine.law = lambda request, _: 0.3 + 0.01 * request.batch
    machine.__post_init__()  # drifts of as many workers as there are targets
    run = make_run()
    workload = run.plan.workload.model_copy(update={"network": make_code(project)})
    path = project / "run.json"
    path.write_text(planned(run, workload=workload).to_json())
    assert "--model net.models:make" in refused(cli("diagnose", path))
    assert asked == []
    assert cli("diagnose", path, "--model", ENTRY, "--budget", "30")[0] == 0
    assert {start[1] for start in asked if isinstance(start, tuple)} == {True}
    path.write_text(make_run().to_json())
    assert "leave --model out" in refused(cli("diagnose", path, "--model", ENTRY))


def test_permission_is_for_the_same_function_in_the_same_folder(project: Path) -> None:
    plain = launcher_for(network_from_name("784-128-10"), None)
    assert not hasattr(plain, "keywords")
    allowed = launcher_for(make_code(project), ENTRY)
    assert allowed.keywords == {"allow_code": True}  # type: ignore[attr-defined]
    other = network_from_name("784-128-10")
    for network, model in ((make_code(project), None), (make_code(project), "net.models:mak"), (other, ENTRY)):
        with pytest.raises(BadInput):
            launcher_for(network, model)
    with pytest.raises(BadInput):
        launcher_for(make_code(project.parent), ENTRY)


def test_what_the_worker_refuses_and_what_is_beyond_the_limits_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    answers: list[Any] = [
        CellFailed("error", "There is no module “net”."),
        DESCRIBED.model_copy(update={"classes": 2**30}),
    ]
    monkeypatch.setattr("core.worker.process.launch_processes", lambda *_, **__: (Describer(seen, answers.pop(0)),))
    with pytest.raises(BadInput, match="no module “net”"):
        network_from_code(ENTRY)
    with pytest.raises(BadInput, match=r"net.models:make .*: outputs"):
        network_from_code(ENTRY)
    with pytest.raises(BadInput, match=r"package\.module:function"):
        network_from_code("net.models")
    assert seen.count("closed") == 2


@pytest.mark.tensorflow
def test_real_workers_describe_and_measure_user_code(project: Path) -> None:
    network = network_from_code(ENTRY)
    assert (network.input_shape, network.classes) == ((6,), 3)
    assert network.parameters == 6 * 8 + 8 + 8 * 3 + 3
    assert network == make_code(project).model_copy(update={"counts": network.layers})
    (worker,) = launcher_for(network, ENTRY)((Target(),), 120)
    try:
        request = Prepare(workload=Workload(network=network), pipeline=Pipeline(), batch=4, warmup_ms=50, block_ms=2)
        prepared = worker.ask(request, 120)
        assert worker.ask(RunBlock(batch=4, steps=prepared.steps_per_block), 120).block_ms > 0
    finally:
        worker.close()
