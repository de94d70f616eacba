"""Keras on every backend: networks, their compilation, its step and its own loop. Loaded by a worker only."""
