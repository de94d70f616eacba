"""Whether what the numbers rest on is so on this machine: a self-check of two minutes at most, and its file."""
