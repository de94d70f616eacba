"""Native PyTorch: a module of the user's own, in the plain loop that PyTorch's tutorials write."""
