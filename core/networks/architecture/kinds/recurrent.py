"""Recurrent layers, in one direction or both, and layers applied to each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.networks.architecture.kinds.activation import activation
from core.networks.architecture.kinds.dense import product
from core.networks.architecture.options import Option, Options, WrongInside, flag, only, real, whole, word
from core.networks.architecture.rule import Rule, Shape, Work, size, with_axes


@dataclass(frozen=True)
class Cell:
    """One kind of recurrent cell.

    ``gates`` is the number of matrices side by side; ``elementwise`` operations and ``kept`` values (needed by the
    backward pass beside the output) are per unit and step, beyond the products.
    """

    gates: int
    elementwise: int
    kept: int


LSTM = Cell(gates=4, elementwise=4 + 4, kept=6)
"""Hochreiter & Schmidhuber (1997): four additions of the two products; two products and a sum for the cell state, one
product for the output. Kept: four gates, the state and its tanh."""
GRU = Cell(gates=3, elementwise=2 + 2 + 4, kept=5)
"""Cho et al. (2014): two additions for the gates, the reset product and its sum, four operations for the new state.
Kept: three gates, the reset product, the previous state."""
SIMPLE = Cell(gates=1, elementwise=1, kept=0)


def recurrent(cell: Cell, options: Options, shape: Shape) -> Work:
    """Count one direction over (steps, features): Keras's cell, step by step.

    ``weight_gradient`` holds the gradients of both matrices and the backpropagation through time.
    """
    steps, features = with_axes(shape, 2, "steps and features")
    units, bias = options["units"], options["use_bias"]
    wide = cell.gates * units
    inner = product(steps, features, wide, bias)
    back = product(steps, units, wide, bias and options.get("reset_after", False))
    other = steps * units * cell.elementwise
    states = steps * units
    return Work(
        output=(steps, units) if options["return_sequences"] else (units,),
        weights=inner.weights + back.weights,
        forward=inner.forward + back.forward + other,
        weight_gradient=inner.weight_gradient + back.weight_gradient + back.input_gradient + other,
        input_gradient=inner.input_gradient,
        internal=states * cell.kept + (0 if options["return_sequences"] else states - units),
    )


def _rule(cell: Cell, **extra: Option) -> Rule:
    options = {
        "units": whole(),
        "activation": activation("tanh"),
        **extra,
        "use_bias": flag(True),
        "dropout": real(0, 1, 0.0),
        "recurrent_dropout": real(0, 1, 0.0),
        "return_sequences": flag(False),
        "return_state": only(False),
        "go_backwards": flag(False),
        "stateful": only(False),
        "unroll": flag(False),
        "zero_output_for_mask": only(False),
    }
    return Rule(options, lambda options, shapes: recurrent(cell, options, shapes[0]))


GATES = activation("sigmoid")
CELLS = {
    "LSTM": _rule(LSTM, recurrent_activation=GATES, unit_forget_bias=flag(True)),
    "GRU": _rule(GRU, recurrent_activation=GATES, reset_after=flag(True)),
    "SimpleRNN": _rule(SIMPLE),
}


def inner_layer(rules: Mapping[str, Rule], accepted: str) -> Option:
    """Return the option of a layer inside a layer: class name and options, which the class's own rule checks."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or value.get("class_name") not in list(rules):
            raise ValueError
        config = value.get("config", {})
        if not isinstance(config, Mapping):
            raise ValueError
        kind = value["class_name"]
        try:
            return {"class_name": kind, "config": rules[kind].check(config)}
        except ValueError as error:
            raise WrongInside(f"in its {kind}, {error}") from None

    return Option(accepted, read)


def inner_work(rules: Mapping[str, Rule], options: Options, shape: Shape) -> Work:
    """Count the layer inside a layer. Raises ValueError."""
    rule = rules[options["layer"]["class_name"]]
    return rule.work(rule.complete(options["layer"]["config"]), (shape,))


def _both_ways(options: Options, shapes: tuple[Shape, ...]) -> Work:
    forward = inner_work(CELLS, options, shapes[0])
    *places, units = forward.output
    side_by_side = options["merge_mode"] == "concat"
    added = 0 if side_by_side else (2 if options["merge_mode"] == "ave" else 1) * size(forward.output)
    return Work(
        output=(*places, 2 * units) if side_by_side else forward.output,
        weights=2 * forward.weights,
        forward=2 * forward.forward + added,
        weight_gradient=2 * forward.weight_gradient + added,
        input_gradient=2 * forward.input_gradient,
        internal=2 * (forward.internal + size(forward.output)),
    )


RULES = {
    **CELLS,
    "Bidirectional": Rule(
        {
            "layer": inner_layer(CELLS, "a layer of the kind " + ", ".join(CELLS)),
            "merge_mode": word("concat", "sum", "ave", "mul", default="concat"),
            "weights": only(None),
        },
        _both_ways,
    ),
}
