"""User code in real workers: what they describe and measure with permission, and that no code runs without."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.networks.families import LayerCount
from core.networks.families.code import Code
from core.worker.process import ProcessWorker
from core.worker.protocol import CellFailed, Describe, Described, OpenTraining, Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

START_S = CELL_S = 120.0

# Known sizes in every function; `custom` has a layer that architecture files may not have
MODELS = """
import keras
from keras import layers

print("a module prints while it is imported")

def dense():
    return keras.Sequential([keras.Input((20,)), layers.Dense(16, activation="relu"), layers.Dense(4)])

def yes_or_no():
    words = keras.Input((12,))
    return keras.Model(words, layers.Dense(1, activation="sigmoid")(layers.LSTM(6)(layers.Embedding(50, 8)(words))))

class Tokens(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = layers.Embedding(50, 8), layers.Embedding(12, 8)
    def build(self, shape):
        self.words.build(shape)
        self.places.build((12,))
        self.scale = self.add_weight(shape=(8,))
    def call(self, words):
        return self.words(words) + self.scale * self.places(keras.ops.arange(12))

def custom():
    words = keras.Input((12,), dtype="int32")
    twice = keras.Sequential([layers.Dense(8, use_bias=False), layers.Dense(5, use_bias=False)])
    again = layers.Dense(8, use_bias=False)(twice(Tokens()(words)))
    return keras.Model(words, layers.Softmax()(twice(again)))

def pictures():
    picture = keras.Input((8, 8, 3), dtype="uint8")
    return keras.Model(picture, layers.Dense(2)(layers.Flatten()(layers.Rescaling(1 / 255)(picture))))

def text():
    return keras.Sequential([keras.Input((1,), dtype="string"), layers.StringLookup(vocabulary=["a", "b"])])

def half():
    stack = [layers.Dense(16, activation="relu", dtype="mixed_bfloat16"), layers.Dense(4, dtype="float32")]
    return keras.Sequential([keras.Input((20,)), *stack])

def subclassed():
    class Mine(keras.Model):
        def call(self, x):
            return x
    return Mine()

def leaves():
    raise SystemExit("no more of this")

calls = []
def grows():
    calls.append(None)
    return keras.Sequential([keras.Input((20,)), layers.Dense(4 + len(calls))])
"""
TRAP = """
from pathlib import Path
Path(__file__).with_name("imported").write_text("")
def make():
    raise AssertionError
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("project")
    (made / "net").mkdir()
    (made / "net" / "models.py").write_text(MODELS)
    (made / "trap.py").write_text(TRAP)
    return made


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[ProcessWorker, ProcessWorker]]:
    """Yield a worker that may import code, and one as started without --model."""
    pair = ProcessWorker(Target(), allow_code=True), ProcessWorker(Target(threads=1))
    for worker in pair:
        worker.wait_ready(START_S)
    yield pair
    for worker in pair:
        worker.close()


def describe(workers: tuple[ProcessWorker, ProcessWorker], folder: Path, function: str) -> Described:
    return workers[0].ask(Describe(entry=f"net.models:{function}", folder=str(folder)), CELL_S)


def prepare(network: Code, mode: str = "train", variant: Target | None = None) -> Prepare:
    workload = Workload.model_validate({"network": network, "mode": mode})
    return Prepare(workload=workload, pipeline=Pipeline(), batch=4, variant=variant, warmup_ms=50, block_ms=2)


def refusal(workers: tuple[ProcessWorker, ProcessWorker], folder: Path, function: str) -> str:
    with pytest.raises(CellFailed) as caught:
        describe(workers, folder, function)
    assert caught.value.outcome == "error"
    return caught.value.reason


def network(workers: tuple[ProcessWorker, ProcessWorker], folder: Path, function: str) -> Code:
    return describe(workers, folder, function).network(f"net.models:{function}", str(folder))


def test_layers_that_are_all_known_are_counted_by_the_architecture(workers, folder) -> None:
    found = network(workers, folder, "dense")
    assert (found.input_shape, found.classes, found.label_shape) == ((20,), 4, ())
    assert (found.vocabulary, found.from_logits) == (None, True)
    assert found.parameters == 20 * 16 + 16 + 16 * 4 + 4
    assert [layer.activations for layer in found.layers] == [16, 4]
    products = 2 * 20 * 16 + 16 + 2 * 16 * 4 + 4  # and the activation function, by that engine's convention
    assert products <= found.flops_per_sample(training=False) <= products + 16 + 4


def test_whole_numbers_pixels_and_a_sigmoid_are_recognised(workers, folder) -> None:
    found = network(workers, folder, "yes_or_no")
    assert (found.vocabulary, found.classes, found.from_logits) == (50, 1, False)
    assert network(workers, folder, "pictures").vocabulary == 256


def test_other_layers_are_counted_by_keras_and_tensorflows_profiler(workers, folder) -> None:
    found = network(workers, folder, "custom")
    assert (found.input_shape, found.classes, found.label_shape) == ((12,), 5, (12,))
    assert (found.vocabulary, found.from_logits) == (12, False)  # valid for words and places alike
    tokens = (50 + 12 + 1) * 8
    assert found.parameters == tokens + 8 * 8 + 8 * 5 + 5 * 8  # the layers called twice have one set of weights
    assert found.activations == 12 * (8 + (8 + 5) + 8 + (8 + 5) + 5)
    *layers, whole = found.layers
    assert sum(layer.forward_flops for layer in layers) == 0
    products = 2 * 12 * (2 * (8 * 8 + 8 * 5) + 5 * 8)
    other = 12 * (8 + 8) + 12 * 5 * 6  # scaled and added; a softmax of at most six operations a value
    assert products < whole.forward_flops <= products + other
    assert whole.weight_gradient_flops == whole.input_gradient_flops == whole.forward_flops
    assert "TensorFlow's profiler" in whole.name


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("text", "takes text"),
        ("subclassed", "no known shape of input"),
        ("leaves", "SystemExit: no more of this (models.py, line "),
        ("absent", "has nothing called “absent”"),
        ("not a name", "names no function"),
    ],
)
def test_what_cannot_be_measured_is_refused_and_the_worker_lives_on(workers, folder, function, words) -> None:
    assert words in refusal(workers, folder, function)
    assert describe(workers, folder, "dense").classes == 4


@pytest.mark.parametrize(("function", "mode"), [("dense", "train"), ("custom", "train"), ("yes_or_no", "infer")])
def test_what_was_described_is_measured(workers, folder, function, mode) -> None:
    prepared = workers[0].ask(prepare(network(workers, folder, function), mode), CELL_S)
    assert workers[0].ask(RunBlock(batch=4, steps=prepared.steps_per_block), CELL_S).block_ms > 0


def test_code_that_builds_another_model_than_it_described_is_no_longer_measured(workers, folder) -> None:
    with pytest.raises(CellFailed, match=r"126 .*\(105\)"):
        workers[0].ask(prepare(network(workers, folder, "grows")), CELL_S)


def test_a_precision_of_the_codes_own_is_not_measured_under_another_name(workers, folder) -> None:
    own = network(workers, folder, "half")
    with pytest.raises(CellFailed, match="asks for float32"):
        workers[0].ask(prepare(own), CELL_S)
    half, quarter = (Target(precision=precision) for precision in ("mixed_bfloat16", "mixed_float16"))
    with pytest.raises(CellFailed, match="asks for float16"):
        workers[0].ask(prepare(own, "infer", quarter), CELL_S)
    assert workers[0].ask(prepare(own, "infer", half), CELL_S).steps_per_block >= 1


@pytest.mark.parametrize("entry", ["trap:make", "os:abort"])
def test_a_worker_that_was_not_told_to_imports_nothing(workers, folder, entry) -> None:
    counts = (LayerCount("dense", 1, 1, 1, 1, 1),)
    trap = Code(entry=entry, folder=str(folder), sample_shape=(20,), outputs=4, counts=counts)
    refused = f"This workload is built by code ({entry}); run it from the command line with --model {entry}."
    with pytest.raises(CellFailed) as prepared:
        workers[1].ask(prepare(trap), CELL_S)
    training = OpenTraining(workload=Workload(network=trap), batch=4, learning_rate=0.1)
    with pytest.raises(CellFailed) as opened:
        workers[1].ask(training, CELL_S)
    assert prepared.value.reason == opened.value.reason == refused
    with pytest.raises(CellFailed):
        workers[1].ask(Describe(entry=entry, folder=str(folder)), CELL_S)
    assert not (folder / "imported").exists()


def test_the_trap_would_have_sprung(workers, folder) -> None:
    """Check last that a worker with permission does import the module."""
    with pytest.raises(CellFailed, match="AssertionError"):
        workers[0].ask(Describe(entry="trap:make", folder=str(folder)), CELL_S)
    assert (folder / "imported").exists()
