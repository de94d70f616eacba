"""The devices of a target in TensorFlow: selected before it starts, named, and several under one strategy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from core.base.evidence import TF32_CAPABILITY
from core.base.numbers import counted
from core.machine.environment import quota_cores
from core.worker.protocol import CellFailed
from core.workload.names import all_of
from core.workload.spec import Target

GPU = "GPU:0"  # the first visible one


class GpuAllocator:
    """TensorFlow's own count (:class:`core.worker.memory.Allocator`); the fullest of several GPUs."""

    def __init__(self, names: Sequence[str] = (GPU,)) -> None:
        self._names = tuple(names)

    def held(self) -> int:
        return self._most("current")

    def peak(self) -> int:
        return self._most("peak")

    def reset(self) -> bool:
        for name in self._names:
            tf.config.experimental.reset_memory_stats(name)
        return True

    def _most(self, what: str) -> int:
        return max(int(tf.config.experimental.get_memory_info(name)[what]) for name in self._names)


@dataclass(frozen=True)
class Devices:
    """The devices that run the steps.

    ``names`` are TensorFlow's (``GPU:0`` is the first visible one). ``strategy`` shards a batch over several; None for
    one.
    """

    names: tuple[str, ...]
    strategy: Any = None

    @property
    def first(self) -> str:
        return self.names[0]

    @property
    def words(self) -> str:
        """The names as text, such as ``GPU:0 and GPU:1``."""
        return all_of(self.names)

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which variables are created."""
        scope: AbstractContextManager[Any] = tf.device(self.first) if self.strategy is None else self.strategy.scope()
        return scope

    def allocator(self) -> GpuAllocator | None:
        return GpuAllocator(self.names) if self.first.startswith("GPU") else None


def start_devices(target: Target, limit_bytes: int | None) -> tuple[Devices, str]:
    """Set up and start the target's devices; return them with their model name, if known.

    ``limit_bytes`` applies to each GPU. Raises CellFailed if there is no such device.
    """
    name = _choose_gpus(target, limit_bytes) if target.is_gpu else choose_cpu(target)
    kind = "GPU" if target.is_gpu else "CPU"
    names = tuple(f"{kind}:{number}" for number in range(target.replicas))
    for device in names:
        with tf.device(device):
            tf.constant(0.0) + 1.0  # the runtime starts with the first operation
    strategy = tf.distribute.MirroredStrategy([f"/device:{device}" for device in names]) if len(names) > 1 else None
    return Devices(names, strategy), name


def choose_cpu(target: Target) -> str:
    tf.config.set_visible_devices([], "GPU")
    if (threads := target.threads or quota_cores()) is not None:  # the framework does not see a quota
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    if target.replicas > 1:  # they share the process's threads
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * target.replicas)
    return ""


def _choose_gpus(target: Target, limit_bytes: int | None) -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if missing := [index for index in target.gpus if index >= len(gpus)]:
        seen = f"{counted(len(gpus), 'GPU')}, counted from gpu:0" if gpus else "no GPU, only the CPU"
        raise CellFailed("error", f"There is no gpu:{missing[0]}: TensorFlow found {seen}.")
    chosen = [gpus[index] for index in target.gpus]
    tf.config.set_visible_devices(chosen, "GPU")
    tf.config.experimental.enable_tensor_float_32_execution(target.precision != "float32_strict")
    if (threads := quota_cores()) is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    for gpu in chosen:
        if limit_bytes is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:  # TensorFlow allows only one of the two: the limit is allocated on the card at once
            allowed = tf.config.LogicalDeviceConfiguration(memory_limit=limit_bytes // 2**20)
            tf.config.set_logical_device_configuration(gpu, [allowed])
    names = [str(tf.config.experimental.get_device_details(gpu).get("device_name", "")) for gpu in chosen]
    return all_of(list(dict.fromkeys(filter(None, names))) or [""])


def uses_tf32() -> bool | None:
    """Return whether float32 products run as TF32 on every visible GPU; None if a GPU's capability is unknown."""
    details = map(tf.config.experimental.get_device_details, tf.config.get_visible_devices("GPU"))
    known = [detail.get("compute_capability") for detail in details]
    if None in known:
        return None
    on = tf.config.experimental.tensor_float_32_execution_enabled()
    return bool(on and all(tuple(capability) >= TF32_CAPABILITY for capability in known))


def profiled_devices(is_gpu: bool) -> tuple[str, ...]:
    """Return the trace's names of this worker's devices.

    GPUs are numbered among all that CUDA shows this process; all logical devices of the CPU are one.
    """
    if not is_gpu:
        return ("CPU",)
    return tuple(str(gpu.name).rpartition("physical_device:")[2] for gpu in tf.config.get_visible_devices("GPU"))
