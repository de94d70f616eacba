"""Machines, records, traces and files with known truth, made up for tests and benchmarks; no measurement uses them."""
