"""What a network may at most be, so that a description of one is refused before a machine's memory is spent on it."""

from __future__ import annotations

MAX_LAYERS = 2_000
MAX_INPUTS_OF_A_LAYER = 256
MAX_RANK = 8
"""Axes of one sample or one output, without the batch."""
MAX_OPTION = 2**31 - 1
"""Whole numbers in options: Keras's shapes are 32 bits wide in many kernels."""
MAX_PARAMETERS = 2**32
MAX_ACTIVATIONS = 2**33
"""Values that all layers output or make inside, for one sample."""
MAX_FLOPS = 2**53
"""Operations of one sample's forward and backward pass: the whole numbers that JSON's readers keep exactly."""
