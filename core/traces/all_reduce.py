"""Duration of the gradient exchange among devices in each traced step, if its events show it.

On GPUs NCCL's kernels do it, one on each device: ``ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)``, before NCCL 2.19
``ncclKernel_AllReduce_RING_LL_Sum_float(…)``, before 2.9 ``ncclAllReduceRingLLKernel_sum_f32(…)``. Sparse gradients, of
embeddings, are gathered instead (``AllGather``), which counts, too. From NCCL 2.9 to 2.13 a kernel may bear the name of
another operation than it runs (NCCL issue 714), so any kernel of NCCL counts; a training step has no others. A kernel
waits for those of the other devices, so the straggler, whose kernel is the shortest, shows the time of the exchange
itself.

On the CPU it is TensorFlow's own ring, on threads of its own, with an event per operation (``CollectiveReduceV2``) of
each logical device: the time during which any of them runs counts, waiting included. Between GPUs that ring runs as
ordinary copies and kernels, so a trace of GPUs without NCCL does not show it.

With JAX on the CPU it is an operation of the XLA program, ``all-reduce.5`` (jaxlib 0.10), on a thread of each logical
device, which counts in the same way; an XLA program on GPUs has NCCL's kernels.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from core.traces.intervals import EMPTY, Spans, covered, merged
from core.traces.partition import PS_PER_MS, Host
from core.traces.trace_names import is_collective, operation

_KERNEL = re.compile(r"nccl(Dev)?Kernel|nccl\w*(AllReduce|AllGather)")
_OPERATIONS = ("CollectiveReduce", "CollectiveGather")


def exchange_kernels(texts: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return a mask of the names of GPU kernels that exchange gradients, shape (texts,)."""
    return np.array([_KERNEL.match(text) is not None for text in texts], dtype=np.bool_)


def host_exchanges(host: Host) -> Spans:
    """Return the spans in which the CPU's logical devices exchanged gradients."""
    chosen = np.array([_exchanges(text) for text in host.trace.texts], dtype=np.bool_)
    return np.concatenate([EMPTY, *(line.events.spans[chosen[line.events.name]] for line in host.lines)])


def _exchanges(text: str) -> bool:
    named = operation(text)
    return is_collective(text) or (named is not None and named[1].startswith(_OPERATIONS))


def all_reduces_ms(exchanges: Spans, steps: Spans) -> tuple[float, ...]:
    """Return the time any of a device's ``exchanges`` ran in each step; empty if there are none."""
    return tuple((covered(merged(exchanges), steps) / PS_PER_MS).tolist()) if len(exchanges) else ()
