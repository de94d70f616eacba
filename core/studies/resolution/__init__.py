"""Measure one target against itself, to know which differences this machine can show."""
