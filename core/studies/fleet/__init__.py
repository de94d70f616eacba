"""The fleet run: the same sweep on several machines, and the fastest of them at each batch."""
