"""What TensorFlow's allocator says of a GPU's memory."""

from __future__ import annotations

import tensorflow as tf

GPU = "GPU:0"  # the only one that is visible


class GpuAllocator:
    """TensorFlow's own count (:class:`core.worker.memory.Allocator`)."""

    def held(self) -> int:
        return int(tf.config.experimental.get_memory_info(GPU)["current"])

    def peak(self) -> int:
        return int(tf.config.experimental.get_memory_info(GPU)["peak"])

    def reset(self) -> bool:
        tf.config.experimental.reset_memory_stats(GPU)
        return True
