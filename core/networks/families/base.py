"""Interface of a network family. A family is one module in this package; nothing else names it.

A module that defines a subclass of :class:`Network` with a ``family`` literal is discovered by the package and becomes
part of the specification, the pages' forms and the command line.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from core.base.schema import UserError
from core.networks.architecture.counts import LayerCount

MAX_CLASSES = 10_000


@dataclass(frozen=True)
class Choice:
    """One integer that describes a network; pages draw it as an input, the CLI as a flag.

    ``words`` name the values from ``low`` to ``high`` if they stand for kinds rather than amounts (LSTM, GRU). Families
    whose networks grow call the sizes that do so ``depth`` and ``width``; the label says what they are in the family.
    ``field`` is the network's field to set, if its name differs.
    """

    name: str
    label: str
    low: int
    high: int
    default: int
    help: str
    words: tuple[str, ...] = ()
    field: str = ""

    def word(self, number: int) -> str:
        """Return the word for a number. Raises UserError."""
        if not self.low <= number <= self.high:
            raise UserError(f"{self.label} is {number:,}; accepted are {', '.join(self.words)}.")
        return self.words[number - self.low]

    def number(self, word: str) -> int:
        """Return the number of a word, ignoring case. Raises UserError."""
        words = [each.lower() for each in self.words]
        if word.strip().lower() not in words:
            raise UserError(f"{self.label} is “{word[:40]}”; accepted are {', '.join(self.words)}.")
        return self.low + words.index(word.strip().lower())


def classes_choice(default: int = 10) -> Choice:
    help = "Outputs; 1 means one sigmoid unit (yes or no)."
    return Choice("classes", "Classes", 1, MAX_CLASSES, default, help, field="outputs")


class Network(BaseModel, ABC):
    """A network's architecture: immutable, validated, described without importing a framework."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    title: ClassVar[str]
    choices: ClassVar[tuple[Choice, ...]] = ()
    presets: ClassVar[tuple[str, ...]] = ()
    notation: ClassVar[str] = ""
    """Explains the parts of a short name, for the help beside the presets."""
    trains: ClassVar[bool] = True
    """False for networks that are only run."""
    given_by: ClassVar[str] = ""
    """Way to choose a network in a family without choices, as the end of a sentence."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name that :meth:`from_name` reads back."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, without the batch axis."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """Number of outputs; 1 means a sigmoid with binary cross-entropy."""

    @property
    def vocabulary(self) -> int | None:
        """Number of token ids, if samples hold integers from 0 below it; None if they hold real numbers."""
        return None

    @property
    def caches(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of one sample's further inputs, of real numbers."""
        return ()

    @property
    def tokens_per_sample(self) -> int | None:
        """Tokens that a step reads or adds per sample, if tokens per second are what counts."""
        return None

    @property
    def sample_values(self) -> int:
        """Number of values in one sample's inputs."""
        return sum(map(math.prod, (self.input_shape, *self.caches)))

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of one sample's labels: () for one class per sample, (n,) for one at each of n positions."""
        return ()

    @property
    def from_logits(self) -> bool:
        """True if the outputs are logits rather than probabilities (of a sigmoid or a softmax)."""
        return True

    @property
    @abstractmethod
    def layers(self) -> tuple[LayerCount, ...]:
        """Counts of each layer, first to last."""

    @classmethod
    @abstractmethod
    def from_name(cls, name: str) -> Self:
        """Return the network of that short name. Raises UserError if the name is not in this family's notation."""

    @classmethod
    def from_choices(cls, values: dict[str, int]) -> Self:
        """Return the network for the picked :attr:`choices`. Raises UserError or ValidationError outside the limits."""
        if not cls.choices:
            raise UserError(f"{cls.title} has no sizes to choose; {cls.given_by}.")
        fields = {choice.field or choice.name: choice for choice in cls.choices}
        numbers = {field: values[choice.name] for field, choice in fields.items()}
        words = {field: choice.word(numbers[field]).lower() for field, choice in fields.items() if choice.words}
        return cls.model_validate(numbers | words)

    def as_choices(self) -> dict[str, int] | None:
        """Return the values from which :meth:`from_choices` makes this network; None if choices cannot express it."""
        values: dict[str, int] = {}
        for choice in self.choices:
            value = getattr(self, choice.field or choice.name)
            if isinstance(value, str):
                known = [word.lower() for word in choice.words]
                if value.lower() not in known:
                    return None
                value = choice.low + known.index(value.lower())
            values[choice.name] = int(value)
        return values if values and self.from_choices(values) == self else None

    @abstractmethod
    def build(self, keras: Any) -> Any:
        """Build an uncompiled ``keras.Model``; ``keras`` is passed in because only a worker may import it."""

    def with_length(self, length: int) -> Self:  # noqa: ARG002
        """Return the network for sequences of another length. Raises UserError if it takes no sequences."""
        raise UserError(f"{self.name} takes no sequences, so its inputs have one length.")

    def build_open(self, keras: Any) -> Any:  # noqa: ARG002
        """Build the model as :meth:`build` does, for sequences of any length."""
        raise UserError(f"{self.name} is built for one length only.")

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def activations(self) -> int:
        """Values that all layers output or compute inside, for one sample."""
        return sum(layer.activations + layer.internal for layer in self.layers)

    def flops_per_sample(self, training: bool) -> int:
        """Return the floating-point operations for one sample; a multiply-add counts 2.

        Training adds the gradients of weights and inputs (about twice the forward pass) and leaves out the optimizer,
        whose work does not grow with the batch.
        """
        forward = sum(layer.forward_flops for layer in self.layers)
        if not training:
            return forward
        return forward + sum(layer.weight_gradient_flops + layer.input_gradient_flops for layer in self.layers)
