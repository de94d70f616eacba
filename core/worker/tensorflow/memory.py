"""Memory of a GPU according to TensorFlow's allocator."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

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
