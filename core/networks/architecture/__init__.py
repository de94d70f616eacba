"""Networks as graphs of Keras layers, described, checked and counted without importing a framework."""
