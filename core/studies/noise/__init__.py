"""The gradient noise study: the noise of gradients while a workload trains, and the steps that a larger batch saves."""
