"""The host study: the cost of a step and of an operation on the host, whatever the device does."""
