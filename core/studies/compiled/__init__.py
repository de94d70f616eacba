"""The step of a network as XLA compiles it for GPUs that are not here."""
