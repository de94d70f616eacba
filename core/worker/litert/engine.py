"""LiteRT on the CPU: Keras networks, converted in the worker for each batch size, and run by its interpreter.

TensorFlow builds and converts them, and runs ``tf.data`` pipelines; steps use it only to draw from those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import repeat
from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from core.base.frameworks import FRAMEWORKS, Compiled
from core.machine.environment import usable_cores
from core.networks.families import Network
from core.worker.accuracy import output_difference, samples_compared
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.feeds import Feed, host_feed, kept, make_arrays
from core.worker.keras.model import build
from core.worker.litert.convert import convert
from core.worker.litert.operations import in_int8, placement
from core.worker.litert.step import InterpreterStep
from core.worker.memory import PeakMeter
from core.worker.protocol import CellFailed, Hello, Ready
from core.worker.tensorflow.data import own_dataset
from core.worker.tensorflow.datasets import explain_reading, numpy_feed
from core.worker.tensorflow.devices import choose_cpu
from core.workload.spec import AS_ASKED, ONLY_WAY, Pipeline, Target, Workload

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
    found = np.concatenate([step.outputs(part) for part in parts])
    if int8:
        step.output_difference = output_difference(exact, found, network, in_int8(step.interpreter))
    else:
        _check_same(exact, found)


def _check_same(exact: np.ndarray, found: np.ndarray) -> None:
    apart, largest = float(np.abs(found - exact).max()), float(np.abs(exact).max())
    if not apart <= SAME * largest:
        raise CellFailed(
            "error",
            f"LiteRT computes something else than Keras does for this network: outputs differ by {apart:.3g} where "
            f"the largest is {largest:.3g}.",
        )
