"""A batch that stays on the device, as Keras's loop over several steps a call takes it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class ResidentBatch(tf.data.Iterator, tf.experimental.Optional):
    """The same tensors whenever it is asked: an iterator that never ends, and the optional that is never empty.

    With ``steps_per_execution`` Keras trains in a compiled loop, from nothing but a ``tf.data`` iterator (its
    trainer.py, ``multi_step_on_iterator``). One of TensorFlow's own lives on the host: prefetched to a GPU, each batch
    is fetched by a remote call and copied over the link. This one is made of the tensors themselves, which enter the
    compiled function as its arguments and its loop as loop variables, and are nowhere copied.
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
    """How TensorFlow takes a :class:`ResidentBatch` apart and puts it together."""

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
