"""Whether a step has got slower: two checkouts measured in turn, or one against a stored run."""
