"""Keras on TensorFlow, for one target. Loaded by a worker process only."""
