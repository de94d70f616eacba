"""XLA's CUDA compiler on a machine without a GPU: the program of a step for a card that is only described.

The plugin with the compiler (``jax-cuda12-pjrt``) needs no driver and no CUDA library. There is nothing to time kernels
on, so nothing is tuned (``xla_gpu_autotune_level`` 0): a run on a card may choose other tilings and libraries. Its last
step, machine code, is left out: XLA calls NVIDIA's assembler for it, which most machines lack and new ones refuse for
old cards (CUDA 13 for Volta). It gets a stand-in that writes nothing, since the program is read and never run.
``jax.experimental.topologies`` and the plugin's description of a card are not stable interfaces; both packages are
pinned together in ``requirements-compile.txt``.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from core.base.frameworks import Precision
from core.machine.installed import COMPILER_PACKAGE, NO_COMPILER
from core.traces.program import read_kernels
from core.worker.feeds import make_arrays
from core.worker.jax.step import SHAPED, Network, inner_function
from core.worker.protocol import CellFailed, Compile, StepCompiled
from core.workload.spec import Target, Workload

UNTUNED: dict[str, Any] = {"xla_gpu_autotune_level": 0}
RELEASE = "12.8"
"""CUDA toolkit whose assembler is stood in for; it knows every card from Pascal to Blackwell."""
ONE_DEVICE = "1x1x1"
STAND_IN = f"""#!/bin/sh
for word in "$@"; do
    if [ "$word" = "--version" ]; then echo "Cuda compilation tools, release {RELEASE}, V{RELEASE}.0"; fi
    if [ "$before" = "-o" ]; then : > "$word"; fi
    before=$word
done
"""


def compile_step(request: Compile) -> StepCompiled:
    """Compile one step as Keras's ``fit`` or ``predict`` runs it. Raises CellFailed ``error``."""
    device = _device(request.chip)
    network = _network(request.workload, request.precision)
    there = SingleDeviceSharding(device)

    def shaped(array: Any, first: int | None = None) -> jax.ShapeDtypeStruct:
        shape = array.shape if first is None else (first, *array.shape[1:])
        return jax.ShapeDtypeStruct(shape, array.dtype, sharding=there)

    tree_map = jax.tree_util.tree_map
    batch = tree_map(lambda array: shaped(np.asarray(array), request.batch), make_arrays(request.workload, SHAPED))
    lowered = _function(network, request.workload).lower(tree_map(shaped, network.state), batch)
    begin_s = time.monotonic()
    with _no_assembler() as options:
        compiled = lowered.compile(compiler_options=options)
    took_ms = 1000 * (time.monotonic() - begin_s)
    memory = compiled.memory_analysis()
    return StepCompiled(
        batch=request.batch,
        compile_ms=took_ms,
        kernels=read_kernels(compiled.as_text()),
        argument_bytes=memory.argument_size_in_bytes,
        output_bytes=memory.output_size_in_bytes,
        alias_bytes=memory.alias_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
    )


@contextmanager
def _no_assembler() -> Iterator[dict[str, Any]]:
    """Put the stand-in for the assembler where XLA looks first; yield the options of a compilation that uses it."""
    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        assembler = Path(folder) / "bin" / "ptxas"
        assembler.parent.mkdir()
        assembler.write_text(STAND_IN)
        assembler.chmod(0o700)
        yield UNTUNED | {"xla_gpu_cuda_data_dir": folder}


@lru_cache(maxsize=64)
def _device(chip: str) -> Any:
    """Return the device that the text describes. Raises CellFailed if there is no compiler for it."""
    try:
        version = importlib.metadata.version(COMPILER_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise CellFailed("error", NO_COMPILER) from None
    if version != jax.__version__:
        raise CellFailed("error", f"{COMPILER_PACKAGE} is {version}, JAX is {jax.__version__}. {NO_COMPILER}")
    return topologies.get_topology_desc("gpu", "cuda", target_config=chip, topology=ONE_DEVICE).devices[0]


@lru_cache(maxsize=2)
def _network(workload: Workload, precision: Precision) -> Network:
    return Network(workload, Target(framework="jax", precision=precision, execution="xla"))


def _function(network: Network, workload: Workload) -> Any:
    """Return Keras's jitted function of a step. Raises CellFailed if this Keras keeps it elsewhere."""
    model = network.model
    with network.held():
        made = model.make_train_function() if workload.training else model.make_predict_function()
    function = inner_function(made or (model.train_function if workload.training else model.predict_function))
    if function is None:
        raise CellFailed("error", "Keras's compiled function was not found in this version of Keras.")
    return function
