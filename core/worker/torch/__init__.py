"""Keras on PyTorch, and what it shares with native PyTorch: the device, its compiler, placement, traces."""
