"""Networks of a user's own architecture, read by :func:`core.networks.architecture.read.read_architecture`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from core.base.schema import UserError, as_user_error
from core.networks.architecture.graph import Graph
from core.networks.architecture.read import read_architecture
from core.networks.architecture.text import MAX_CHARACTERS, dump, load
from core.networks.families.graph_network import GraphNetwork

MAX_LABEL = 60
UNNAMED = "own architecture"
STRANGE = re.compile(r"[^\w .,()+@:-]")  # labels appear in titles of pages and charts, where < or * would be markup


class Own(GraphNetwork):
    """A user's own architecture.

    ``architecture`` is the graph's canonical text (:mod:`core.networks.architecture.text`), checked and counted again
    whenever a network is made from it; ``label`` is the name of its file.
    """

    title: ClassVar[str] = "Your own architecture"
    given_by: ClassVar[str] = "give the file with --architecture, or upload it"

    family: Literal["own"] = "own"
    architecture: Annotated[str, Field(max_length=MAX_CHARACTERS)]
    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL)] = UNNAMED

    @field_validator("architecture")
    @classmethod
    def _architecture(cls, value: str) -> str:
        return _canonical(value)

    @field_validator("label")
    @classmethod
    def _label(cls, value: str) -> str:
        if STRANGE.search(value):
            raise ValueError("label must hold letters, digits, spaces and . , ( ) + @ : _ - only")
        return value

    @property
    def name(self) -> str:
        return self.label

    @property
    def graph(self) -> Graph:
        return load(self.architecture)

    def with_length(self, length: int) -> Self:
        if not self.is_sequence:
            return super().with_length(length)
        graph = self.graph
        with as_user_error():
            text = dump(replace(graph, input_shape=(length, *graph.input_shape[1:])))
            return type(self)(architecture=text, label=self.label)

    @classmethod
    def from_file(cls, data: bytes, filename: str) -> Self:
        """Return the network in Keras JSON or a .keras or .h5 file. Raises UserError, which names the faulty layer."""
        return cls(architecture=dump(read_architecture(data, filename)), label=label_of(filename))

    @classmethod
    def from_name(cls, name: str) -> Self:
        raise UserError(f"“{name[:MAX_LABEL]}” is a name for an architecture of your own; {cls.given_by}.")


def label_of(filename: str) -> str:
    """Return a display name for a file: no folders, extension or markup, at most :data:`MAX_LABEL` characters."""
    stem = PurePosixPath(filename.replace("\\", "/")).name.rsplit(".", 1)[0]
    return STRANGE.sub("", stem).strip()[:MAX_LABEL] or UNNAMED


@lru_cache(maxsize=64)
def _canonical(text: str) -> str:
    return dump(load(text))
