"""A batch that stays on the device, as Keras's loop of several steps per call takes it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class ResidentBatch(tf.data.Iterator, tf.experimental.Optional):
    """An endless iterator over the same tensors, and an optional that is never empty.

    With ``steps_per_execution`` Keras trains in a compiled loop, only from a ``tf.data`` iterator (its trainer.py,
    ``multi_step_on_iterator``). TensorFlow's own iterators live on the host: prefetched to a GPU, each batch is fetched
    by a remote call and copied over the link. This one consists of the tensors themselves, which are arguments of the
    compiled function and variables of its loop, and are never copied.
    """

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        super().__init__()
        self.tensors = tuple(tensors)
        self._spec = _ResidentSpec(tuple(tf.TensorSpec(t.shape, t.dtype) for t in self.tensors))

    @property
    def _type_spec(self) -> _ResidentSpec:
        return self._spec

    @property
    def element_spec(self) -> tuple[Any, ...]:
        return self._spec.element_spec

    def get_next(self) -> tuple[Any, ...]:
        return self.tensors

    def __next__(self) -> tuple[Any, ...]:
        return self.tensors

    def get_next_as_optional(self) -> ResidentBatch:
        return self

    def has_value(self, name: str | None = None) -> Any:  # noqa: ARG002
        return tf.constant(True)

    def get_value(self, name: str | None = None) -> tuple[Any, ...]:  # noqa: ARG002
        return self.tensors


class _ResidentSpec(tf.TypeSpec):
    """Type of a :class:`ResidentBatch`, by which TensorFlow decomposes and rebuilds it."""

    __slots__ = ("element_spec",)

    def __init__(self, element_spec: tuple[Any, ...]) -> None:
        self.element_spec = element_spec

    @property
    def value_type(self) -> type[ResidentBatch]:
        return ResidentBatch

    @property
    def _component_specs(self) -> tuple[Any, ...]:
        return self.element_spec

    def _serialize(self) -> tuple[Any, ...]:
        return (self.element_spec,)

    def _to_components(self, value: ResidentBatch) -> tuple[Any, ...]:
        return value.tensors

    def _from_components(self, components: tuple[Any, ...]) -> ResidentBatch:
        return ResidentBatch(components)
