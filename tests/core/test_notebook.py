"""Measuring from a notebook: accepted values, results, output; and the notebook in docs, executed."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core import notebook
from core.base.schema import UserError
from core.networks.families import network_from_name
from core.notebook import Measured, measure
from core.rounds.answer.analyse import analyse
from core.store import Store
from core.studies.jobs import Jobs
from core.studies.runner import NullRecorder
from core.workload.spec import Target, Workload
from simulated.runs import make_run
from simulated.simulation import Curve, Machine
from simulated.sweeps import plan
from tests.support.targets import run_of

ROOT = Path(__file__).parents[2]
NAME = "784-512-512-10"
TWO = ("cpu,threads=1", Target(threads=2))
JSON = json.dumps(
    {
        "class_name": "Sequential",
        "config": {
            "name": "mine",
            "layers": [
                {"class_name": "InputLayer", "config": {"batch_shape": [None, 20], "name": "input"}},
                {"class_name": "Dense", "config": {"units": 8, "activation": "relu", "name": "first"}},
                {"class_name": "Dense", "config": {"units": 4, "name": "second"}},
            ],
        },
    }
)


class Model:
    """Substitute for Keras's models that cannot be pickled."""

    name = "mine <b>"
    layers = ()

    def __init__(self, text: str | Exception) -> None:
        self._text = text

    def to_json(self) -> str:
        if isinstance(self._text, Exception):
            raise self._text
        return self._text

    def __reduce__(self) -> Any:
        raise AssertionError("it was pickled")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Replace workers by simulated ones on a virtual clock; they cross at batch 48.2."""
    machine = Machine(curves=(Curve(0.3, 0.02), Curve(1.0, 0.003)))

    def jobs(keep: bool) -> Jobs:
        store = Store() if keep else NullRecorder()
        return Jobs(store, machine.launch, machine.clock, lambda: None, lambda: None)

    monkeypatch.setattr(notebook, "_jobs", jobs)
    monkeypatch.setattr(notebook, "POLL_S", 0.01)
    return machine


@pytest.mark.usefixtures("machine")
def test_a_model_is_measured_from_its_json_and_never_pickled() -> None:
    result = measure(Model(JSON), TWO, batches="1:256", budget_s=20, name="Mine", keep=False)
    run = result.run
    assert (run.name, run.status, run.names) == ("Mine", "finished", ("1 thread", "2 threads"))
    assert run.plan is not None
    assert (run.plan.workload.network.name, run.plan.workload.network.parameters) == ("mine b", 20 * 8 + 8 + 8 * 4 + 4)
    assert result.verdict == str(result) == analyse(run).verdict.sentence
    found = result.crossover
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 48.2 < found.high
    assert Store().summaries("sweep") == ()


@pytest.mark.usefixtures("machine")
def test_it_is_kept_in_the_history_unless_told_otherwise() -> None:
    result = measure(NAME, TWO, batches=[8, 1, 64], budget_s=20)
    assert result.run.batches[0] == 1
    assert [summary.id for summary in Store().summaries("sweep")] == [result.run.id]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("given", [network_from_name(NAME), Workload(network=NAME), plan("1:64", budget_s=20.0)])
def test_networks_workloads_and_plans_are_measured_too(given: Any) -> None:
    run = measure(given, TWO, batches="1:64", budget_s=20, keep=False).run
    assert run.plan is not None
    assert run.plan.workload == Workload(network=NAME)


@pytest.mark.usefixtures("machine")
def test_an_interrupted_kernel_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def wait(jobs: Jobs, timeout_s: float | None = None) -> None:
        waits.append(timeout_s)
        if len(waits) == 1:
            whole(jobs, 20.0)
            raise KeyboardInterrupt
        whole(jobs, timeout_s)

    whole = Jobs.wait
    monkeypatch.setattr(Jobs, "wait", wait)
    assert measure(NAME, TWO, batches="1:64", budget_s=20, keep=False).run.rounds
    assert waits[1] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "A int cannot be measured; accepted are a Keras model"),
        ("no network", "no network"),
        (Model(NotImplementedError("override get_config()")), "Override get_config() A network that only code"),
        (Model(JSON.replace("Dense", "Mine")), "with “breakeven sweep --model package.module:function”"),
        (Model("{}"), "describes no Keras model"),
    ],
)
def test_what_cannot_be_described_is_refused_with_a_sentence(given: Any, said: str) -> None:
    with pytest.raises(UserError) as refused:
        measure(given, TWO, keep=False)
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("choice", "said"),
    [({"targets": ["cpu,threads=x"]}, "threads"), ({"budget_s": 0}, "budget_s"), ({"batches": "5:1"}, "must rise")],
)
def test_choices_that_make_no_plan_are_refused(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        measure(NAME, **{"targets": TWO, "keep": False, **choice})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_result_shows_its_verdict_picture_and_table(count: int) -> None:
    run = make_run() if count == 2 else run_of(count)
    result = Measured(run, analyse(run))
    shown = result._repr_html_()
    assert result.verdict in shown
    assert shown.count('src="data:image/svg+xml;base64,') == shown.count("<table>") == 1
    assert "<script" not in shown
    assert "<style" not in shown
    frame = result.to_frame()
    assert len(frame) == len(result.answer.cells)
    for one in result.answer.against:
        rows = frame[frame["target"] == run.target_names[one.target]].set_index("batch")
        assert [rows["speed_up"][found.batch] for found in one.speed_ups] == [found.ratio for found in one.speed_ups]
    assert frame[frame["target"] == run.target_names[0]]["speed_up"].isna().all()
    assert (result.crossover is None) is (count != 2)
    assert result.figure().data
    assert result.to_markdown().startswith(f"### {result.verdict}")
    assert result.to_html().startswith("<!doctype html>")


@pytest.mark.usefixtures("machine")
def test_progress_is_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[str, str]] = []

    def shown(kind: str, content: dict[str, str]) -> SimpleNamespace:
        lines.append((kind, content["text/plain"]))
        return SimpleNamespace(update=lambda content, **_: shown("over", content))

    display = SimpleNamespace(display=lambda content, **_: shown("new", content))
    ipython = SimpleNamespace(get_ipython=lambda: "a kernel", display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    measure(NAME, TWO, batches="1:64", budget_s=20, keep=False)
    assert [kind for kind, _ in lines] == ["new"] + ["over"] * (len(lines) - 1)
    assert lines[0][1].endswith("left at most.")
    assert lines[-1][1].startswith("Finished after ")


@pytest.mark.tensorflow
def test_the_notebook_of_the_documentation_runs() -> None:
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "data" in output]
    assert any("Finished after" in data.get("text/plain", "") for data in shown)
    assert any("data:image/svg+xml" in data.get("text/html", "") for data in shown)
    assert not any("widget" in kind for data in shown for kind in data)
    assert any(output.get("text", "").startswith("### ") for output in outputs)
