"""Limits on a network's size, so that an oversized description is refused before it takes up memory."""

from __future__ import annotations

MAX_LAYERS = 2_000
MAX_INPUTS_OF_A_LAYER = 256
MAX_RANK = 8
"""Axes of one sample or one output, without the batch."""
MAX_OPTION = 2**31 - 1
"""Limit of integers in options: Keras's shapes are 32 bits wide in many kernels."""
MAX_PARAMETERS = 2**32
MAX_ACTIVATIONS = 2**33
"""Values that all layers output or compute inside, for one sample."""
MAX_FLOPS = 2**53
"""Operations of one sample's forward and backward pass: the largest integer that JSON readers keep exactly."""
