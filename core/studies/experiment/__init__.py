"""Variants of one step measured side by side; the pipeline study and the diagnosis are made of it."""
