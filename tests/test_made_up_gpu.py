"""The made-up GPU: the real commands see its cards and workers, in every state, and nothing shows it as a real one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.cli import main
from core.rounds.run import Run
from core.worker.protocol import CellFailed, Hello, Prepare, RunBlock, TraceSteps
from core.workload.spec import Pipeline, Target, Workload
from simulated.made_up import states
from simulated.made_up.activity import CPU, Teller
from simulated.made_up.curves import parts_ms
from simulated.made_up.inside import put_into_state
from simulated.made_up.states import CARD_NAME, REMARKABLE, STATES, UNUSABLE, environment

pytestmark = pytest.mark.processes

MADE_UP = ("made up", "made-up", "simulated")
NETWORK = Workload.model_validate({"network": "784-128-10"})
ROOT = Path(__file__).parent.parent


@pytest.fixture
def in_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put this process into a state."""
    return lambda name: put_into_state(monkeypatch, tmp_path, name)


@pytest.mark.parametrize("name", STATES)
def test_devices_lists_the_cards_of_every_state_and_says_what_is_wrong(
    name: str, in_state: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    in_state(name)
    state = STATES[name]
    assert main(["devices", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    shown = [gpu["name"] for gpu in said["gpus"]]
    assert shown == ([] if state.visible else [f"{CARD_NAME} MIG 1g.5gb"] if state.mig else list(state.names))
    assert {gpu["driver"] for gpu in said["gpus"]} <= {state.driver}
    assert all(any(word in gpu.lower() for word in MADE_UP) for gpu in shown)
    assert "made.up" in said["tensorflow"]
    assert said["cuda_packages"]
    assert said["default_targets"][1].startswith("cpu" if name in UNUSABLE else "gpu:0")
    assert main(["devices"]) == 0
    lines = capfd.readouterr().out.splitlines()
    wrong = UNUSABLE | REMARKABLE
    assert [any(words in line for line in lines) for words in wrong.values()] == [key == name for key in wrong]


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_gpu_that_cannot_be_used_is_refused_before_a_worker_starts(
    name: str, in_state: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    in_state(name)
    assert main(["sweep", "--preset", "784-128-10", "--targets", "cpu", "gpu:0", "--batches", "8,512"]) == 2
    (said,) = capfd.readouterr().err.splitlines()
    assert UNUSABLE[name] in said
    assert not list(tmp_path.glob("activity-*"))  # left by a worker


@pytest.mark.tensorflow
def test_a_probe_says_why_the_framework_finds_no_gpu(in_state: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Probe in its own worker process; the cause is in TensorFlow's log."""
    in_state("driver_old")
    assert main(["devices", "--probe"]) == 0
    assert "driver is older" in capfd.readouterr().out


def engine_of(target: str) -> Any:
    from simulated.made_up import engine

    return engine.start(Hello(target=Target.parse(target)))[0]


@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_a_trace_is_the_devices_own_and_its_parts_are_known(in_state: Any, execution: str) -> None:
    in_state("good")
    target = Target.parse(f"gpu:0,execution={execution}")
    engine = engine_of(str(target))
    engine.prepare(Prepare(workload=NETWORK, pipeline=Pipeline(kind="host"), batch=512))
    cell = engine.trace(TraceSteps(batch=512, steps=4))
    truth = parts_ms(NETWORK, target, Pipeline(kind="host"), 512)
    mean = cell.device.mean()
    assert cell.device.device == "GPU:0"
    assert mean.compute_ms == pytest.approx(1.06 * truth.compute_ms, rel=0.05)
    assert mean.h2d_ms == pytest.approx(1.06 * truth.copy_ms, rel=0.05)
    assert mean.step_ms == pytest.approx(1.06 * truth.step_ms, rel=0.05)
    assert all("made_up" in kernel.name for kernel in cell.device.top)
    assert any("one by one" in note for note in cell.notes) == (execution == "xla")


def test_without_cupti_a_trace_is_refused_with_the_products_own_sentence(in_state: Any) -> None:
    in_state("no_cupti")
    engine = engine_of("gpu:0")
    engine.prepare(Prepare(workload=NETWORK, pipeline=Pipeline(), batch=8))
    with pytest.raises(CellFailed, match="CUPTI"):
        engine.trace(TraceSteps(batch=8, steps=4))


def test_a_request_that_the_engine_does_not_know_fails_with_a_sentence(in_state: Any) -> None:
    in_state("good")
    with pytest.raises(CellFailed, match="“dance”"):
        engine_of("cpu").dance(None)


def test_a_card_follows_its_engine(in_state: Any, tmp_path: Path) -> None:
    in_state("throttled")
    import pynvml

    def read() -> tuple[int, int, int, int]:
        time.sleep(0.03)  # answers move in steps
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return (
            pynvml.nvmlDeviceGetPowerUsage(handle), pynvml.nvmlDeviceGetTotalEnergyConsumption(handle),
            pynvml.nvmlDeviceGetUtilizationRates(handle).gpu, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        )  # fmt: skip

    card, elsewhere = Teller(tmp_path, 0), Teller(tmp_path, CPU)
    idle_mw, _, idle_pct, idle_reasons = read()
    with elsewhere.busy(100, 1000.0):
        assert read()[0] == idle_mw
    with card.busy(80, 40.0):
        power_mw, before_mj, pct, _ = read()
        after_mj = read()[1]
    assert (power_mw - idle_mw, idle_pct, pct, idle_reasons) == (40_000, 0, 80, 1)
    assert after_mj > before_mj
    with card.busy(80, 40.0):
        time.sleep(0.6)
    with card.busy(80, 40.0):
        assert read()[3] == 0x40  # heat
    _, spent_mj, _, reasons = read()
    assert reasons == 1
    assert read()[1] > spent_mj  # idle power goes on


def test_the_card_holds_what_is_left_of_its_memory(in_state: Any) -> None:
    in_state("memory_taken")
    engine = engine_of("gpu:0")
    engine.prepare(Prepare(workload=NETWORK, pipeline=Pipeline(), batch=1))
    assert engine.block(RunBlock(batch=1, steps=2)).block_ms > 0
    with pytest.raises(CellFailed) as failed:
        engine.prepare(Prepare(workload=NETWORK, pipeline=Pipeline(), batch=2048))
    assert failed.value.outcome == "out_of_memory"


def test_a_real_command_measures_and_traces_the_made_up_card(tmp_path: Path) -> None:
    """Run the command in its own process, with its workers and the file that it writes."""
    out = tmp_path / "run.json"
    command = [sys.executable, "-m", "core", "sweep", "--preset", "784-128-10", "--targets", "cpu",
               "gpu:0,execution=graph", "--batches", "8,512", "--no-refine", "--budget", "30"]  # fmt: skip
    variables = environment("good", tmp_path)
    done = subprocess.run(
        [*command, "--out", out], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    run = Run.from_json(out.read_bytes())
    assert {process.device_name for process in run.processes if process.target == 1} == {states.CARD_NAME}
    assert {cell.outcome for cell in run.cells} == {"measured"}
    assert {trace.device.device for trace in run.traces} == {"CPU", "GPU:0"}
    assert run.environment is not None
    assert run.environment.cpu == states.CPU_NAME
    assert json.loads(out.read_text())["environment"]["gpus"][0]["name"] == states.CARD_NAME
    assert all("made.up" in process.versions["tensorflow"] for process in run.processes)


def test_a_process_without_the_site_sees_nothing_of_it() -> None:
    code = "import sys, core.machine.environment; print([f for f in sys.meta_path if 'made_up' in type(f).__module__])"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {states.STATE: "good"}
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=env, text=True).strip() == "[]"
