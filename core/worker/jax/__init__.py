"""Keras on JAX. Loaded by a worker only."""
