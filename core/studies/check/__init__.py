"""The regression check: has a step become slower? Two checkouts measured in turn, or one against a stored run."""
