"""STUB: a person's own model code."""

from core.measure.protocol import Described


def describe_model(entry: str, folder: str) -> Described:
    raise NotImplementedError
