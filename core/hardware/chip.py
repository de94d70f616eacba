"""Description of an NVIDIA card in the terms of XLA's compiler, made from the catalogue.

XLA compiles for a card that is not there from a text (``target_config``) with its compute capability, multiprocessors,
caches, clock and memory. What a generation's multiprocessors hold is from the table of technical specifications in
NVIDIA's CUDA C++ Programming Guide; the rest is the catalogue's. The clock is the one at which the card reaches its
float32 peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.base.schema import UserError
from core.hardware.catalogue import GpuSpec

KIB = 1024
L2_BYTES_PER_MB = 1 << 20
CUDNN, RUNTIME = (9, 10, 0), (12, 8, 0)
"""Versions of cuDNN and of CUDA's runtime that the compiler is told, assumed: no machine has them here."""


@dataclass(frozen=True)
class Generation:
    """A generation's multiprocessor: its ``lanes`` of float32, ``threads``, shared memory in KiB (in all, and at most
    per block). ``own``: the compiler may use instructions that later generations lack.
    """

    capability: tuple[int, int]
    lanes: int
    threads: int
    shared_kib: int
    block_kib: int
    own: bool = False


GENERATIONS = {
    "Pascal": Generation((6, 1), 128, 2048, 96, 48),
    "Pascal, HBM": Generation((6, 0), 64, 2048, 64, 48),
    "Volta": Generation((7, 0), 64, 2048, 96, 96),
    "Turing": Generation((7, 5), 64, 1024, 64, 64),
    "Ampere, HBM": Generation((8, 0), 64, 2048, 164, 163),
    "Ampere": Generation((8, 6), 128, 1536, 100, 99),
    "Ada": Generation((8, 9), 128, 1536, 100, 99),
    "Hopper": Generation((9, 0), 128, 2048, 228, 227, own=True),
    "Blackwell, HBM": Generation((10, 0), 128, 2048, 228, 227, own=True),
    "Blackwell": Generation((12, 0), 128, 1536, 100, 99, own=True),
}
FIRST_WITH_HBM = "P100"
"""Pascal's card with HBM, which the catalogue files under Pascal."""


def generation_of(spec: GpuSpec) -> Generation:
    """Return the generation of a card. Raises UserError if XLA's CUDA compiler does not know it."""
    name = f"{spec.architecture}, HBM" if spec.name.startswith(FIRST_WITH_HBM) else spec.architecture
    if name in GENERATIONS:
        return GENERATIONS[name]
    whose = "it is not NVIDIA's" if spec.vendor not in ("NVIDIA", "yours") else "its generation is not stated"
    raise UserError(
        f"{spec.title} cannot be compiled for: {whose}. XLA's CUDA compiler knows {', '.join(GENERATIONS)}."
    )


def chip(spec: GpuSpec) -> str:
    """Return the card's description for XLA. Raises UserError if the catalogue knows too little of it."""
    generation = generation_of(spec)
    if spec.multiprocessors is None or spec.l2_mb is None:
        raise UserError(f"{spec.title} cannot be compiled for: its multiprocessors or its L2 cache are not stated.")
    major, minor = generation.capability
    clock = 1000 * spec.fp32_tflops / (2 * spec.multiprocessors * generation.lanes)
    own = "feature_extension: ACCELERATED_FEATURES" if generation.own else ""
    return f"""gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: {48 * KIB}
  shared_memory_per_core: {generation.shared_kib * KIB}
  shared_memory_per_block_optin: {generation.block_kib * KIB}
  threads_per_core_limit: {generation.threads}
  core_count: {spec.multiprocessors}
  fpus_per_core: {generation.lanes}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {round(1e9 * spec.bandwidth_gb_s)}
  l2_cache_size: {round(L2_BYTES_PER_MB * spec.l2_mb)}
  clock_rate_ghz: {clock:.4f}
  device_memory_size: {round(1e9 * spec.memory_gb)}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  cuda_compute_capability {{ major: {major} minor: {minor} {own} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: {CUDNN[0]} minor: {CUDNN[1]} patch: {CUDNN[2]} }}
runtime_version {{ major: {RUNTIME[0]} minor: {RUNTIME[1]} patch: {RUNTIME[2]} }}
device_description_str: "{spec.name}"
"""


def can_be_compiled_for(spec: GpuSpec) -> bool:
    """Tell whether the compiler knows such a card."""
    try:
        chip(spec)
    except UserError:
        return False
    return True
