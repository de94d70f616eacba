"""Scripts in the styles that people write, run for real under the watch, and causes planted in some."""

from __future__ import annotations

import importlib.util
import os
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.base.schema import UserError
from core.rounds.plan import SweepPlan
from core.studies.here import Instruments, measure_here
from core.studies.job.answer import job_answer
from core.studies.job.breakdown import breakdown, captured_batch, captured_workload, causes, main_phase
from core.studies.job.capture import Capture
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, Script
from core.studies.job.run import FEED, end_script, job_targets, read_capture, start_script
from core.studies.runner import NullRecorder, Stop, unheard

pytestmark = pytest.mark.tensorflow
FOLDER = Path(__file__).parents[3] / "fixtures" / "scripts"
UNEXPLAINED = 0.05
"""Share of the wall time that may remain unexplained."""
RIGHT = 0.10
"""Relative error of a planted cause's seconds."""
SCRIPTS: Mapping[str, tuple[str, int | None, int | None]] = {
    "sequential": ("fit", 2560, 32),
    "functional": ("fit", 32, 32),
    "subclass": ("fit", 32, 64),
    "custom_train_step": ("fit", 64, 32),
    "custom_loop": ("function step", 96, 32),
    "eager_loop": ("call", 32, 16),
    "generator": ("fit", 60, 32),
    "pydataset": ("fit", 50, 16),
    "tfdata": ("fit", 36, 50),
    "callbacks": ("fit", 36, 32),
    "class_weight": ("fit", 50, 32),
    "multi_input": ("fit", 16, 32),
    "mixed_precision": ("fit", 16, 64),
    "masked_lstm": ("fit", 16, 32),
    "transfer": ("fit", 16, 16),
    "autoencoder": ("fit", 60, 50),
    "gan": ("function train_step", 32, 32),
    "predict_in_a_loop": ("predict", 30, 8),
    "keras_on_jax": ("fit", 78, 32),
    "lengths": ("function score", 60, 16),
}
"""Main phase, steps and batch size of each script."""
CODE_OF_THEIR_OWN = {"subclass", "custom_train_step"}
REFUSED = {"multi_input", "gan"}
"""Scripts whose network a sweep does not measure even with --rerun, but the sentence says why."""


@pytest.fixture(autouse=True)
def usual_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scripts have the backend that they name, else TensorFlow, whatever the shell or an earlier test has set."""
    monkeypatch.delenv("KERAS_BACKEND", raising=False)


def captured(path: Path, out: Path, stop_after: int = 0, python: str = sys.executable) -> Capture:
    """Run a script under the watch to its end."""
    script = Script(path=str(path), python=python, folder=str(path.parent))
    begin_s = time.time()
    process = start_script(script, out, stop_after)
    try:
        process.wait(240)
    finally:
        if process.poll() is None:
            end_script(process)
    return read_capture(out, path.name, time.time() - begin_s, process.returncode)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_style_is_captured_and_its_time_explained(name: str, tmp_path: Path) -> None:
    if name == "keras_on_jax" and importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed here")
    capture = captured(FOLDER / f"{name}.py", tmp_path / "capture.json")
    phase, seconds = main_phase(capture), breakdown(capture)
    kind, steps, batch = SCRIPTS[name]
    assert (capture.ended, capture.exit_status) == ("finished", 0)
    assert (phase.kind, phase.steps, captured_batch(capture)) == (kind, steps, batch)
    assert sum(seconds.values()) == pytest.approx(capture.wall_s, rel=0.01)
    assert seconds["loop"] <= UNEXPLAINED * capture.wall_s
    assert min(seconds.values()) >= 0
    assert kind != "fit" or min(seconds["between"], phase.late_s) > 0
    if name in CODE_OF_THEIR_OWN | REFUSED:
        with pytest.raises(UserError):
            captured_workload(capture)
    else:
        assert captured_workload(capture).network.parameters == capture.models[phase.model or 0].parameters


def test_the_lengths_of_a_script_s_inputs_are_counted_and_measured(tmp_path: Path) -> None:
    capture = captured(FOLDER / "lengths.py", tmp_path / "capture.json")
    workload = captured_workload(capture)
    targets = job_targets(capture, (), workload)
    assert workload.lengths == ((10, 30), (20, 15), (30, 15))
    assert (workload.mode, workload.network.input_shape) == ("infer", (30, 4))
    assert (targets[0].call, targets[0].pad) == ("function", "none")
    assert [(target.call, target.pad) for target in targets[2:]] == [("function", "longest"), ("relaxed", "none")]
    SweepPlan(workload=workload, targets=targets, batches=(16,), pipeline=FEED)  # three lengths: no buckets


def test_lengths_that_only_a_data_set_knows_are_counted_inside_the_graph(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(FED), encoding="utf-8")
    capture = captured(script, tmp_path / "capture.json")
    assert (main_phase(capture).kind, captured_workload(capture).lengths) == ("fit", ((5, 24), (9, 12)))


FED = """
import keras, numpy as np, tensorflow as tf

inputs = keras.Input((None, 4))
model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GRU(4)(inputs)))
model.compile("adam", "mse")
def batches():
    for turn in range(36):
        yield np.zeros((8, (5, 9, 5)[turn % 3], 4), np.float32), np.zeros((8, 1), np.float32)
shapes = tf.TensorSpec((8, None, 4)), tf.TensorSpec((8, 1))
model.fit(tf.data.Dataset.from_generator(batches, output_signature=shapes), verbose=0)
"""
HEAD = """
import os, time
import keras
import numpy as np

rng = np.random.default_rng(0)
x, y = rng.random((3200, 16), dtype=np.float32), rng.random((3200, 1), dtype=np.float32)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
true_s = 0.0
"""
TAIL = """
with open(os.environ["TRUTH"], "w") as file:
    file.write(str(true_s))
"""
PLANTED = {
    "callback": """
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        global true_s
        begin = time.perf_counter()
        time.sleep(0.04)
        true_s += time.perf_counter() - begin
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=2, verbose=0, callbacks=[Slow()])
""",
    "validation": """
evaluate = keras.Model.evaluate
def timed(self, *args, **kwargs):
    global true_s
    begin = time.perf_counter()
    result = evaluate(self, *args, **kwargs)
    true_s += time.perf_counter() - begin
    return result
keras.Model.evaluate = timed
model.compile("adam", "mse")
many = np.tile(x, (10, 1)), np.tile(y, (10, 1))
model.fit(x, y, batch_size=32, epochs=4, verbose=0, validation_data=many)
""",
    "first_call": """
class Slow(keras.Model):
    def train_step(self, data):
        time.sleep(2.0)
        return super().train_step(data)
class Clock(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        self.begin = time.perf_counter()
    def on_train_batch_end(self, batch, logs=None):
        seconds.append(time.perf_counter() - self.begin)
seconds = []
inputs = keras.Input((16,))
model = Slow(inputs, keras.layers.Dense(1)(inputs))
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=1, verbose=0, callbacks=[Clock()])
true_s = seconds[0] - np.median(seconds)  # with the tracing and compiling that the sleep comes on top of
""",
    "input": """
def batches():
    global true_s
    while True:
        begin = time.perf_counter()
        time.sleep(0.02)
        true_s += time.perf_counter() - begin
        yield x[:32], y[:32]
model.compile("adam", "mse")
model.fit(batches(), steps_per_epoch=150, epochs=1, verbose=0)
""",
    "retracing": """
import tensorflow as tf

@tf.function
def step(x):
    time.sleep(0.1)
    return model(x)
for length in range(1, 31):
    begin = time.perf_counter()
    step(tf.zeros((length, 16)))
    if length > 1:
        true_s += time.perf_counter() - begin
    for _ in range(5):
        step(tf.zeros((length, 16)))
""",
}


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named_first_with_its_true_seconds(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, truth = tmp_path / "train.py", tmp_path / "truth"
    script.write_text(HEAD + textwrap.dedent(PLANTED[cause]) + TAIL, encoding="utf-8")
    monkeypatch.setenv("TRUTH", str(truth))
    first = causes(captured(script, tmp_path / "capture.json"))[0]
    true_s = float(truth.read_text())
    assert first.code == cause
    assert first.seconds == pytest.approx(true_s, rel=RIGHT)


@pytest.mark.parametrize("name", sorted(CODE_OF_THEIR_OWN))
def test_code_of_ones_own_is_measured_if_workers_may_run_the_script_again(name: str) -> None:
    path = FOLDER / f"{name}.py"
    script = Script(path=path.name, python=sys.executable, folder=str(FOLDER))
    plan = JobPlan(script=script, rerun=True, budget_s=25.0)
    study = measure_here(JOB, plan, NullRecorder(), unheard, Stop(), Instruments())
    assert study.sweep is not None, study.reason
    assert study.sweep.plan is not None
    assert study.sweep.plan.workload.network.parameters == study.capture.models[0].parameters
    assert len(job_answer(study).targets) == 2


def test_a_long_script_ends_after_the_steps_it_was_given(tmp_path: Path) -> None:
    capture = captured(FOLDER / "sequential.py", tmp_path / "capture.json", stop_after=50)
    assert (capture.ended, main_phase(capture).steps) == ("stopped", 50)
    assert main_phase(capture).facts.epochs == 40


def test_a_script_that_fails_shows_its_own_traceback_and_what_was_seen_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + 'model.compile("adam", "mse")\nmodel.fit(x, y, verbose=0)\nraise ValueError("mine")\n')
    capture = captured(script, tmp_path / "capture.json")
    shown = capfd.readouterr().err
    assert (capture.ended, capture.exit_status, main_phase(capture).steps) == ("failed", 1, 100)
    assert 'train.py", line 12' in shown
    assert shown.rstrip().endswith("ValueError: mine")
    assert "core/worker/watch" not in shown


def test_a_script_sees_its_own_modules_and_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text("MINE = 3\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, core\nimport keras, numpy as np\n"
        "assert core.MINE == 3 and __name__ == '__main__' and sys.argv[1:] == []\n"
        "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])\n"
        "model.predict(np.zeros((8, 4), 'float32'), verbose=0)\n"
    )
    capture = captured(script, tmp_path / "capture.json")
    assert (capture.ended, captured_batch(capture)) == ("finished", 8)
    assert os.fspath(script) not in capture.model_dump_json()
