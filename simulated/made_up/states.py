"""The states of the made-up GPU, and the environment of a process that sees it. Imports nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SITE = Path(__file__).parent / "site"
ROOT = Path(__file__).parents[2]
STATE, FOLDER, OTHER_PID = "MADE_UP_GPU", "MADE_UP_GPU_FOLDER", "MADE_UP_GPU_OTHER_PID"
"""Environment variables: the state's name, the folder of the engines' activity, the other process on the card."""

CPU_NAME = "Made-up CPU (simulated)"
CARD_NAME = "Made-up GPU (simulated)"
GIB = 2**30


@dataclass(frozen=True)
class State:
    """A card, its driver and the framework's view of it; ``logs`` are TensorFlow's own messages.

    ``targets`` show the state best. ``visible`` is CUDA_VISIBLE_DEVICES. ``found``: the framework accepts the driver's
    version. ``traced``: its profiler sees the GPU. ``hot``: heat limits the clock under load. ``other_bytes``: memory
    of the card held by another process, which computes there; None without one. ``breaks``: a kernel fails once, after
    which CUDA refuses all further work of the process.
    """

    says: str
    targets: tuple[str, str] = ("cpu", "gpu:0")
    capability: tuple[int, int] = (7, 5)
    names: tuple[str, ...] = (CARD_NAME,)
    driver: str = "570.86.15"
    cuda_driver: int = 12_080
    visible: str | None = None
    found: bool = True
    traced: bool = True
    hot: bool = False
    other_bytes: int | None = None
    mig: bool = False
    breaks: bool = False
    logs: tuple[str, ...] = ()


STATES = {
    "good": State("all is well; the step is a graph's", targets=("cpu", "gpu:0,execution=graph")),
    "xla": State("all is well; the step is compiled by XLA, as Keras chooses"),
    "tf32": State("float32 is TF32 on this card", capability=(8, 0)),
    "throttled": State("heat holds the card's clock down", hot=True),
    "shared": State("another process computes on the card", other_bytes=4 * GIB),
    "no_cupti": State("the profiler cannot see the GPU", traced=False),
    "blackwell": State(
        "the framework was not built for this card", capability=(12, 0), driver="580.65.06", cuda_driver=13_000,
        logs=("TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0.",),
    ),
    "broken": State("a kernel fails once", breaks=True),
    "mig": State("a slice of a card", capability=(8, 0), mig=True),
    "two_cards": State(
        "the slow card comes first on the bus, the fast one first in CUDA's own order",
        names=("Made-up slow GPU (simulated)", "Made-up fast GPU (simulated)"),
    ),
    "driver_old": State("the driver is too old for the framework", driver="470.256.02", cuda_driver=11_040,
                        found=False, logs=("CUDA driver version is insufficient for CUDA runtime version",)),
    "hidden": State("CUDA_VISIBLE_DEVICES hides the card", visible="-1"),
    "memory_taken": State("another process holds nearly all of the card's memory", other_bytes=15 * GIB + 456 * 2**20),
}  # fmt: skip

UNUSABLE = {
    "blackwell": "newer than all code in this TensorFlow",
    "driver_old": "is too old for this TensorFlow",
    "hidden": "which hides every GPU from TensorFlow",
    "memory_taken": "too little for TensorFlow to start",
}
REMARKABLE = {
    "mig": "is a slice of a card (MIG)",
    "two_cards": "The GPUs differ",
    "shared": "because of other programs",
}
"""The product's words on a GPU in these states: that it cannot be used, or what to mind."""


def present() -> State | None:
    """Return the state of this process, or None."""
    name = os.environ.get(STATE)
    return STATES[name] if name else None


def folder() -> Path:
    return Path(os.environ[FOLDER])


def environment(name: str | None, where: Path, other_pid: int | None = None) -> dict[str, str]:
    """Return variables for a process that sees the made-up framework, and with a state's name its cards.

    Data and the machine's lock are in the folder ``where``.
    """
    out = ("BREAKEVEN_DATABASE_URL", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", STATE)
    kept = {key: value for key, value in os.environ.items() if key not in out}
    made = {"PYTHONPATH": os.pathsep.join((str(SITE), str(ROOT))), "BREAKEVEN_DATA_DIR": str(where / "data"),
            "BREAKEVEN_LOCK_DIR": str(where), FOLDER: str(where)}  # fmt: skip
    if name is not None:
        made[STATE] = name
        visible = STATES[name].visible
        made |= {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
        made |= {OTHER_PID: str(other_pid)} if other_pid is not None else {}
    return kept | made
