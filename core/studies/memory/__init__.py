"""The memory study: the memory that a workload needs on a target, and the largest batch that fits."""
