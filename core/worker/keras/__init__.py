"""What Keras is on every backend: networks, their compiling, its step and its own loop. Loaded by a worker only."""
