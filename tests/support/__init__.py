"""Shared test support: made-up runs with known truth, and helpers around processes and databases."""
