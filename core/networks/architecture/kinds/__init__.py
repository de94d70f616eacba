"""Supported layers, one module per kind: ``RULES`` in each maps Keras's class names to rules."""
