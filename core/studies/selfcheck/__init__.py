"""Self-check of two minutes at most: tests what the numbers rest on, on this machine, and writes a file."""
