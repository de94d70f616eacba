"""Experiments: variants of one step measured side by side, used by the pipeline study and the diagnosis."""
