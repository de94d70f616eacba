"""Strict ``torch.compile``: whole graphs of fixed shapes, or an error; never a silent fallback to eager.

By default PyTorch compiles for any batch from the second batch size on (``automatic_dynamic_shapes``), and falls back
to eager without an error once a function was compiled eight times (``recompile_limit``). What was compiled, and what
was not, is read from Dynamo's own record of every compilation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from torch._dynamo import config as dynamo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.exc import TorchDynamoException
from torch._inductor import config as inductor

from core.worker.protocol import CellFailed

MOST_COMPILATIONS = 10_000  # of one function per process: more than a sweep has cells
MAX_SAID = 160
BACKWARD = "Unsupported Tensor.backward() call"
"""Dynamo's reason for the break in every training step of Keras, between its two compiled halves."""

_whole: set[Hashable] = set()
"""Keys compiled whole in this process."""


def set_compiler_up(kind: str) -> None:
    """Configure the compiler for this whole process, on a device of that kind."""
    dynamo.automatic_dynamic_shapes = False
    dynamo.recompile_limit = dynamo.accumulated_recompile_limit = MOST_COMPILATIONS
    dynamo.fail_on_recompile_limit_hit = True
    dynamo_utils.set_compilation_metrics_limit(MOST_COMPILATIONS)
    if kind == "cpu":
        inductor.compile_threads = 1  # a pool of compiling processes would idle beside the measurement


def begin() -> None:
    """Clear the record: :func:`check` and :func:`check_settled` judge what is compiled from here on."""
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Turn Dynamo's errors inside into a cell's failure of one sentence."""
    try:
        yield
    except TorchDynamoException as error:
        raise CellFailed("error", f"torch.compile cannot compile this step whole: {_first_line(str(error))}") from error


def check(what: Hashable, breaks: tuple[str, ...] = (), replayed: bool = False) -> None:
    """Raise CellFailed unless everything run since :func:`begin` was compiled as requested.

    ``what`` distinguishes modules and shapes: what was compiled once is not compiled again in the same process.
    ``breaks`` are prefixes of accepted reasons for a graph break. ``replayed``: CUDA graphs were requested.
    """
    counters = dynamo_utils.counters
    graphs = counters["stats"]["unique_graphs"]
    if not graphs and what not in _whole:
        _refuse("compiled nothing of this step, which ran eagerly")
    for metrics in dynamo_utils.get_compilation_metrics():
        if metrics.fail_type is not None:
            _refuse(f"left {metrics.co_name} eager: {_first_line(str(metrics.fail_reason))}")
        if metrics.shape_env_guard_count:
            _refuse("compiled this step for batches of any size, which is not the step of this batch")
    for reason in counters["graph_break"]:
        if not reason.startswith(breaks or ("\0",)):
            _refuse(f"broke this step's graph and ran the rest eagerly: {_first_line(reason)}")
    if replayed and (skips := counters["inductor"]["cudagraph_skips"]):
        _refuse(f"left {skips} of this step's graphs out of CUDA graphs")
    _whole.add(what)


def check_settled() -> None:
    """Raise CellFailed if anything was compiled since :func:`begin`: such steps are not those of a warm cell."""
    if dynamo_utils.get_compilation_metrics():
        begin()
        _refuse("compiled again amid measured steps")


def _refuse(what: str) -> None:
    raise CellFailed("error", f"torch.compile {what}; choose execution=eager, or change what it names.")


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return "".join(c for c in line if c.isprintable())[:MAX_SAID].rstrip(".")
