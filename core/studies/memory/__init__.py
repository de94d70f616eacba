"""The memory study: how much a workload needs on a target, and the largest batch that fits."""
