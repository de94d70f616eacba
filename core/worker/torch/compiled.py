"""``torch.compile`` held to its word: whole graphs of fixed shapes, or an error; never a quiet fall to eager.

Left alone PyTorch compiles for any batch from the second batch size on (``automatic_dynamic_shapes``), and falls to
eager without an error once a function was compiled eight times (``recompile_limit``). What was compiled, and what was
not, is read from Dynamo's own record of every compilation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from torch._dynamo import config as dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.exc import TorchDynamoException
from torch._inductor import config as inductor

from core.worker.protocol import CellFailed

MOST_COMPILATIONS = 10_000  # of one function in a process: more than a sweep has cells
MAX_SAID = 160
BACKWARD = "Unsupported Tensor.backward() call"
"""Dynamo's words for the break that every training step of Keras's has, between its two compiled halves."""

_whole: set[Hashable] = set()
"""What this process has compiled whole."""


def set_compiler_up(kind: str) -> None:
    """For this whole process, on a device of that kind."""
    dynamo.automatic_dynamic_shapes = False
    dynamo.recompile_limit = dynamo.accumulated_recompile_limit = MOST_COMPILATIONS
    dynamo.fail_on_recompile_limit_hit = True
    dynamo_utils.set_compilation_metrics_limit(MOST_COMPILATIONS)
    if kind == "cpu":
        inductor.compile_threads = 1  # a pool of compiling processes would wait beside what is measured


def begin() -> None:
    """What is compiled from here on is what :func:`check` and :func:`check_settled` judge."""
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """What Dynamo refuses inside, as a cell's failure in one sentence."""
    try:
        yield
    except TorchDynamoException as error:
        raise CellFailed("error", f"torch.compile cannot compile this step whole: {_first_line(str(error))}") from error


def check(what: Hashable, breaks: tuple[str, ...] = (), replayed: bool = False) -> None:
    """Raises CellFailed where what ran since :func:`begin` is not compiled as was asked.

    ``what`` tells modules and shapes apart: what was compiled once is not compiled again in the same process.
    ``breaks`` are beginnings of reasons for which a graph may break. ``replayed``: CUDA graphs were asked for.
    """
    counters = dynamo_utils.counters
    graphs = counters["stats"]["unique_graphs"]
    if not graphs and what not in _whole:
        _refuse("compiled nothing of this step, which ran eagerly")
    for found in dynamo_utils.get_compilation_metrics():
        if found.fail_type is not None:
            _refuse(f"left {found.co_name} eager: {_first_line(str(found.fail_reason))}")
        if found.shape_env_guard_count:
            _refuse("compiled this step for batches of any size, which is not the step of this batch")
    for reason in counters["graph_break"]:
        if not reason.startswith(breaks or ("\0",)):
            _refuse(f"broke this step's graph and ran the rest eagerly: {_first_line(reason)}")
    if replayed and (skips := counters["inductor"]["cudagraph_skips"]):
        _refuse(f"left {skips} of this step's graphs out of CUDA graphs")
    _whole.add(what)


def check_settled() -> None:
    """Raises CellFailed where anything was compiled since :func:`begin`: those steps are none of a warm cell."""
    if dynamo_utils.get_compilation_metrics():
        begin()
        _refuse("compiled again amid measured steps")


def _refuse(what: str) -> None:
    raise CellFailed("error", f"torch.compile {what}; choose execution=eager, or change what it names.")


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return "".join(c for c in line if c.isprintable())[:MAX_SAID].rstrip(".")
