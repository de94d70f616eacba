"""LiteRT on the CPU: Keras networks, converted in the worker for each batch size, and run by its interpreter.

TensorFlow builds and converts them, and runs ``tf.data`` pipelines; steps use it only to draw from those.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import repeat
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from core.base.frameworks import FRAMEWORKS, Compiled
from core.machine.environment import usable_cores
from core.networks.families import Network
from core.worker.accuracy import output_difference, samples_compared
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.feeds import Feed, host_feed, kept, make_arrays
from core.worker.keras.model import build
from core.worker.litert.operations import in_int8, placement
from core.worker.memory import PeakMeter
from core.worker.protocol import CellFailed, Hello, Ready
from core.worker.step import Step, check_outputs
from core.worker.tensorflow.data import own_dataset
from core.worker.tensorflow.datasets import explain_reading, numpy_feed
from core.worker.tensorflow.devices import choose_cpu
from core.workload.spec import AS_ASKED, ONLY_WAY, Pipeline, Target, Workload

LOOPS = ("While", "StatelessWhile", "LoopCond")
UNKNOWN_OP = re.compile(r"'(tf\.\w+)' op is neither a custom op nor a flex op")


def convert(model: Any, example: np.ndarray, calibration: np.ndarray | None = None) -> bytes:
    """Return the program for batches of exactly the shape and type of ``example``.

    With ``calibration``, samples in whole batches, weights and activations are in int8, quantised after training with
    those samples' ranges. Inputs and outputs stay float32 (token ids int64), as for any other target.

    Raises CellFailed ``error`` for a network with operations that LiteRT lacks.
    """
    frozen = _frozen(model, example)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if calibration is not None:
        _refuse_loops(frozen)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _batches(calibration, len(example))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    try:
        return bytes(converter.convert())
    except Exception as error:
        if missing := sorted(set(UNKNOWN_OP.findall(str(error)))):
            raise CellFailed("error", f"LiteRT has no operation for {', '.join(missing)} of this network.") from None
        raise


def _frozen(model: Any, example: np.ndarray) -> Any:
    """Return the network as one function of a fixed shape with its weights as constants.

    LiteRT's own handling of variables leaves them empty here, and the outputs are then NaN.
    """

    def infer(x: Any) -> Any:
        return model(x, training=False)

    return convert_variables_to_constants_v2(
        tf.function(infer, input_signature=[tf.TensorSpec(example.shape, example.dtype)]).get_concrete_function()
    )


def _batches(samples: np.ndarray, batch: int) -> Iterator[list[np.ndarray]]:
    for begin in range(0, len(samples), batch):
        yield [samples[begin : begin + batch]]


def _refuse_loops(frozen: Any) -> None:
    """Raise CellFailed for a loop, at which LiteRT's calibration crashes by a segmentation fault (TensorFlow 2.21)."""
    graph = frozen.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    if any(node.op in LOOPS for node in nodes):
        raise CellFailed(
            "error",
            "LiteRT cannot quantise a network with a loop, as LSTM and GRU layers have; choose precision=float32.",
        )


class InterpreterStep(Step):
    """The calls of a user's loop: ``set_tensor``, ``invoke``, ``get_tensor``, which all copy and run synchronously.

    A resident batch stays in the interpreter's input tensor, which no operation overwrites: it is set once, and the
    step is ``invoke`` and ``get_tensor``.
    """

    def __init__(self, program: bytes, feed: Feed, threads: int, batch: int, resident: bool) -> None:
        super().__init__(feed)
        self.interpreter = interpreter(program, threads)
        (taken,), (output,) = self.interpreter.get_input_details(), self.interpreter.get_output_details()
        if taken["shape"][0] != batch:
            raise CellFailed("error", f"LiteRT's program takes batches of {taken['shape'][0]}, not of {batch}.")
        self._input, self._output = taken["index"], output["index"]
        self.call = self._fetched if resident else self._fed
        self.compare: Callable[[], None] | None = None
        """Compares its outputs with Keras's, once; leaves another batch in the input tensor."""
        self.hold()

    def hold(self) -> None:
        """Put the batch into the input tensor, if the feed is resident."""
        if self.call == self._fetched:
            self.interpreter.set_tensor(self._input, next(self.feed.open())[0])

    def _fed(self) -> Any:
        self.interpreter.set_tensor(self._input, next(self._iterator)[0])
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self._output)

    def _fetched(self) -> Any:
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self._output)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs of one batch, which stays in the input tensor."""
        self.interpreter.set_tensor(self._input, x)
        return np.asarray(self._fetched())

    def wait(self, last: Any) -> None:
        """Do nothing: ``invoke`` is synchronous."""

    def check_finite(self) -> None:
        check_outputs(bool(np.isfinite(self.last).all()))


def interpreter(program: bytes, threads: int) -> Any:
    """Return an interpreter with its memory allocated; XNNPACK runs the operations it can, LiteRT's default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the deprecation names a new package of the same interpreter
        made = tf.lite.Interpreter(model_content=program, num_threads=threads)
    made.allocate_tensors()
    return made


SAME = 0.01  # of the largest output: tolerance for LiteRT's float32 against Keras's, with other kernels and rounding


@dataclass(frozen=True, kw_only=True)
class SampledFeed(Feed):
    """A feed that can also supply samples: ``samples(n)`` returns the same n each time, to calibrate and compare."""

    samples: Callable[[int], np.ndarray]
    batch: int
    resident: bool


def start(hello: Hello) -> tuple[LiteRTEngine, Ready]:
    choose_cpu(hello.target)
    tf.constant(0.0) + 1.0  # TensorFlow's runtime starts with the first operation
    versions = {"tensorflow": metadata.version("tensorflow"), "keras": str(keras.__version__)}
    return LiteRTEngine(hello), greet(hello, "CPU:0", versions=versions)


class LiteRTEngine(CellEngine[InterpreterStep]):
    """Cells of inference. Cells of a workload share the Keras network; each has its own program."""

    exhausted = (tf.errors.ResourceExhaustedError,)

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> SampledFeed:
        if pipeline.kind == "tfdata":
            feed = numpy_feed(workload, target, pipeline, batch, self.title)
        elif pipeline.kind == "host":
            feed = host_feed(workload, batch)
        else:
            feed = kept(repeat(make_arrays(workload, batch)))
        return SampledFeed(
            open=feed.open,
            epoch_steps=feed.epoch_steps,
            warmup_ms=feed.warmup_ms,
            samples=partial(_samples, workload, pipeline),
            batch=batch,
            resident=pipeline.kind == "resident",
        )

    def build_model(self, workload: Workload, target: Target) -> Any:
        """Build in float32 for any target: the conversion makes int8 of it."""
        return build(workload, target.model_copy(update={"precision": "float32"}), jit_compile=False)

    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> InterpreterStep:
        """Convert the network for the feed's batch."""
        assert isinstance(feed, SampledFeed)
        batch, int8 = feed.batch, target.precision == "int8"
        count = batch * -(-samples_compared(workload.network) // batch)
        samples = feed.samples(2 * count if int8 else batch)
        program = convert(model, samples[:batch], samples[:count] if int8 else None)
        step = InterpreterStep(program, feed, target.threads or usable_cores() or 1, batch, feed.resident)
        parts = [samples[begin : begin + batch] for begin in range(count if int8 else 0, len(samples), batch)]
        step.compare = partial(_compare, step, model, parts, workload.network, int8)
        return step

    def first_call(self, step: InterpreterStep) -> tuple[float, Placement]:
        """Compare with the Keras network after the first call; memory is measured from then on, without the conversion.

        Raises CellFailed ``error`` if float32 outputs differ.
        """
        first_ms = step.run(1)
        assert step.compare is not None
        step.compare()
        step.compare = None
        step.hold()
        step.run(1)
        PeakMeter()
        return first_ms, Placement(placement(step.interpreter))

    def compiled_as(self, step: InterpreterStep, target: Target) -> tuple[Compiled, str]:  # noqa: ARG002
        title = FRAMEWORKS["litert"].title
        return "interpreter", ONLY_WAY.format(framework=title) if target.execution == "keras" else AS_ASKED

    def trace_fields(self, cell: Cell[InterpreterStep], steps: int) -> NoReturn:  # noqa: ARG002
        raise CellFailed("error", "No profiler that is read here sees into LiteRT’s interpreter.")

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)


def _samples(workload: Workload, pipeline: Pipeline, count: int) -> np.ndarray:
    """Return the first samples of the user's data, repeated if there are too few, or random ones."""
    if pipeline.data is None:
        return make_arrays(workload, count)[0]
    dataset = own_dataset(pipeline.data, workload, None).repeat().batch(count)
    return np.asarray(next(iter(dataset))[0])


def _compare(step: InterpreterStep, model: Any, parts: list[np.ndarray], network: Network, int8: bool) -> None:
    exact = np.concatenate([np.asarray(model(part, training=False)) for part in parts])
    outputs = np.concatenate([step.outputs(part) for part in parts])
    if int8:
        step.output_difference = output_difference(exact, outputs, network, in_int8(step.interpreter))
    else:
        _check_same(exact, outputs)


def _check_same(exact: np.ndarray, converted: np.ndarray) -> None:
    apart, largest = float(np.abs(converted - exact).max()), float(np.abs(exact).max())
    if not apart <= SAME * largest:
        raise CellFailed(
            "error",
            f"LiteRT computes something else than Keras does for this network: outputs differ by {apart:.3g} where "
            f"the largest is {largest:.3g}.",
        )
