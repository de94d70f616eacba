"""The layers that Breakeven knows, a module for each kind: ``RULES`` in each maps Keras's class names to rules."""
