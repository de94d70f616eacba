import itertools

import pytest

from core.base.frameworks import FRAMEWORKS
from core.workload.names import are, full_name, in_title, notations, shown_names
from core.workload.spec import Target

MANY = [
    "cpu",
    "cpu,threads=1",
    "cpu,execution=xla",
    "cpu,threads=1,execution=xla",
    "gpu:0",
    "gpu:1",
    "gpu:0,execution=graph",
    "gpu:0,precision=mixed_float16",
    "gpu:0,precision=mixed_bfloat16",
    "cpu,framework=jax",
    "cpu,framework=litert",
    "gpu:0,precision=float32_strict",
    "cpu,framework=litert,precision=int8",
    "cpu,steps_per_execution=8",
    "cpu,framework=jax,python=/opt/jax/bin/python",
    "mps,framework=torch",
    "cpu,framework=torch,execution=compile",
    "cpu,call=predict",
    "cpu,threads=1,call=function",
]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (("cpu,threads=1", "cpu,threads=2"), ("1 thread", "2 threads")),
        (("cpu", "cpu,threads=1", "cpu,threads=1,execution=xla"), ("all threads", "1 thread", "1 thread, XLA")),
        (("cpu,threads=4", "gpu:0"), ("CPU, 4 threads", "GPU 0")),
        (("cpu,threads=2,execution=graph", "cpu,threads=1,execution=xla"), ("2 threads, graph", "1 thread, XLA")),
        (("cpu", "gpu:0", "gpu:0,precision=mixed_float16"), ("CPU", "GPU 0", "GPU 0, mixed precision")),
        (("gpu:0", "gpu:0,precision=mixed_float16", "gpu:0,precision=mixed_bfloat16"),
         ("float32", "mixed precision (float16)", "mixed precision (bfloat16)")),
        (("cpu,call=predict",), ("CPU, called by predict()",)),
        (("cpu,call=predict_on_batch", "cpu,call=model", "cpu,call=function"),
         ("CPU, called by predict_on_batch()", "CPU, called as model(x)", "CPU, called through a tf.function")),
        (("cpu", "cpu,framework=jax", "cpu,framework=torch"), ("TensorFlow", "JAX", "Keras on PyTorch")),
        (("cpu", "cpu,framework=litert,precision=int8"), ("TensorFlow", "LiteRT, int8")),
        (("mps,framework=torch", "cpu,framework=jax"), ("Keras on PyTorch, Apple GPU", "JAX, CPU")),
        (("gpu:0,precision=mixed_float16",), ("GPU 0, mixed precision (float16)",)),
        (("cpu",), ("CPU",)),
        (("cpu", "cpu:2"), ("CPU", "2 logical CPUs")),
        (("gpu:0", "gpu:0+1", "gpu:0+1+2+3"), ("GPU 0", "GPUs 0 and 1", "GPUs 0 to 3")),
        (("gpu:0+2+3,precision=mixed_float16",), ("GPUs 0, 2 and 3, mixed precision (float16)",)),
    ],
)  # fmt: skip
def test_a_target_is_called_by_what_differs(targets: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert shown_names([Target.parse(text) for text in targets]) == names
    assert notations(targets) == names


@pytest.mark.parametrize("count", [2, 3])
def test_different_targets_have_different_names(count: int) -> None:
    for some in itertools.combinations(map(Target.parse, MANY), count):
        assert len(set(shown_names(some))) == count, some


def test_bare_points_keep_the_names_they_came_with() -> None:
    assert notations(("Xeon", "gpu:0")) == ("Xeon", "gpu:0")


def test_every_framework_has_a_name_of_its_own() -> None:
    assert len({full_name(Target(framework=name)) for name in FRAMEWORKS}) == len(FRAMEWORKS)


def test_a_title_names_the_targets_where_they_are_short_enough() -> None:
    assert in_title(("CPU", "GPU 0", "GPU 0, mixed precision")) == "CPU · GPU 0 · GPU 0, mixed precision"
    assert in_title(("TensorFlow, 1 thread, graph",) * 2 + ("JAX, 2 threads",)) == "3 targets"
    assert in_title(("a" * 60, "b" * 60)) == f"{'a' * 60} against {'b' * 60}"


@pytest.mark.parametrize(
    ("name", "verb"),
    [("GPU 0", "is"), ("CPU, 2 threads", "is"), ("1 thread", "is"), ("2 threads", "are"), ("all threads, XLA", "are"),
     ("CUDA graphs", "are"), ("8 steps per execution", "are"),
     ("GPUs 0 and 1, mixed precision (float16)", "are"), ("GPUs 0, 2 and 3", "are"),
     ("2 logical CPUs, 2 threads", "are")],
)  # fmt: skip
def test_names_take_the_verb_that_they_ask_for(name: str, verb: str) -> None:
    assert are(name) == verb
