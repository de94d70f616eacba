"""The diagnosis: remedies for a target's step, measured side by side."""
