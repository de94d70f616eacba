"""The same sweep on several machines, and which of them is fastest at which batch."""
