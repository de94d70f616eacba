"""Native PyTorch: the user's own module in the plain training loop of PyTorch's tutorials."""
