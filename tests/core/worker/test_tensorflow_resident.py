"""Several steps per call on a batch that stays on its device: Keras's own loop, and nothing that copies the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

SEVERAL = 4
BATCH = 8
TRAIN = Workload(network=network_from_name("20-16-4"), mode="train", optimizer="adam")
PASSING = ("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration")
"""Operations of a compiled loop and its branches, which pass a tensor on unchanged."""


@pytest.fixture(scope="module", autouse=True)
def load_tensorflow() -> None:
    """Import TensorFlow only now, so that collecting the tests does not load it."""
    global tf, kernels, context, build_model, CellStep, make_feed, make_arrays
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework import kernels

    from core.worker.feeds import make_arrays
    from core.worker.tensorflow.model import CellStep, build_model
    from core.worker.tensorflow.pipeline import make_feed


def several(execution: str = "graph") -> Target:
    return Target.parse(f"cpu,execution={execution},steps_per_execution={SEVERAL}")


def resident(target: Target) -> tuple[Any, Any]:
    """Return a model and its step on the resident feed."""
    model = build_model(TRAIN, target)
    return model, CellStep(model, TRAIN, make_feed(TRAIN, target, Pipeline(), BATCH, "CPU:0"), SEVERAL)


def executed(step: Any) -> list[Any]:
    """Return the graphs that a first call of the step ran."""
    ctx = context.context()
    ctx.enable_run_metadata()
    try:
        step.run(SEVERAL)
        metadata = ctx.export_run_metadata()
    finally:
        ctx.disable_run_metadata()
    return [graph for function in metadata.function_graphs for graph in function.partition_graphs]


@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_every_call_trains_its_steps_as_fit_does_from_a_dataset(execution: str) -> None:
    target = several(execution)
    model, step = resident(target)
    own = build_model(TRAIN, target)
    arrays = make_arrays(TRAIN, BATCH)
    dataset = tf.data.Dataset.from_tensors(arrays).repeat(3 * SEVERAL)
    with step.fed():
        for call in range(1, 4):
            step.run(SEVERAL)
            assert int(model.optimizer.iterations) == call * SEVERAL
    own.fit(dataset, epochs=1, verbose=0)
    assert int(own.optimizer.iterations) == 3 * SEVERAL
    for ours, fits in zip(model.get_weights(), own.get_weights(), strict=True):
        np.testing.assert_allclose(ours, fits, rtol=1e-5, atol=1e-7)
    assert float(step.last["loss"]) > 0


def test_no_iterator_is_asked_and_the_batch_only_handed_on() -> None:
    """Check for iterators: on a GPU a batch from one, or in one of TensorFlow's optionals, comes from the host."""
    _, step = resident(several())
    with step.fed():
        graphs = executed(step)
    nodes = [node for graph in graphs for node in graph.node]
    assert [node.op for node in nodes if "Iterator" in node.op or "Dataset" in node.op] == []
    users, handed_on = users_of_the_batch(graphs)
    assert any("MatMul" in user for user in users)
    assert not {"OptionalFromValue", "_Send", "_HostSend", "RemoteCall"} & users
    assert handed_on <= set(PASSING)
    assert "Enter" in handed_on  # into the loop


def users_of_the_batch(graphs: list[Any]) -> tuple[set[str], set[str]]:
    """Return the types of the operations that take the samples, and of those that pass them on to these."""
    users: set[str] = set()
    handed_on: set[str] = set()
    for graph in graphs:
        names = set(samples_in(graph))
        for _ in range(len(graph.node)):  # a loop hands on to what stands before it
            found = {
                node.name
                for node in graph.node
                if names & {name.partition(":")[0] for name in node.input} and node.op in PASSING
            }
            if found <= names:
                break
            names |= found
        for node in graph.node:
            if names & {name.partition(":")[0] for name in node.input if not name.startswith("^")}:
                (handed_on if node.op in PASSING else users).add(node.op)
    return users, handed_on


def samples_in(graph: Any) -> Iterator[str]:
    """Yield the names of the arguments that are samples; variables are resources, and labels whole numbers."""
    for node in graph.node:
        if node.op in ("_Arg", "_DeviceArg") and node.attr["T"].type == tf.float32.as_datatype_enum:
            yield node.name


@pytest.mark.parametrize("operation", PASSING)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_what_hands_the_batch_on_does_so_in_a_gpus_memory(operation: str, dtype: str) -> None:
    """Check the registrations in the installed TensorFlow; int32 would go through the host."""
    enum = tf.as_dtype(dtype).as_datatype_enum
    found = [
        kernel
        for kernel in kernels.get_registered_kernels_for_op(operation).kernel
        if kernel.device_type in ("GPU", "DEFAULT")
        and any(enum in constraint.allowed_values.list.type for constraint in kernel.constraint)
    ]
    assert found
    moved = {"data", "input", "inputs", "output", "output_false", "output_true"}
    assert not any(moved & set(kernel.host_memory_arg) for kernel in found)


def test_inference_takes_the_resident_batch_too() -> None:
    infer = TRAIN.model_copy(update={"mode": "infer"})
    target = several()
    model = build_model(infer, target)
    step = CellStep(model, infer, make_feed(infer, target, Pipeline(), BATCH, "CPU:0"), SEVERAL)
    with step.fed():
        step.run(SEVERAL)
    assert step.last.shape == (SEVERAL * BATCH, 4)
