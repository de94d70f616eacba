"""Hardware that need not be here: a catalogue of GPUs, and what a step would take on them, as a model."""
