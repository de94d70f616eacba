"""The gradient noise study: how noisy gradients are while a workload trains, and what a larger batch saves."""
