"""Workloads and targets of a measurement: their description, names, execution mode, memory and own data."""
