"""The diagnosis: which remedies shorten a target's step, measured side by side."""
