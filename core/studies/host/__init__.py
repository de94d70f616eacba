"""The host study: what a step and an operation cost on the host, whatever the device does."""
