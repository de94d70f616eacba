"""Dense layers and embeddings."""

from __future__ import annotations

from dataclasses import replace

from core.networks.architecture.kinds.activation import activated, activation
from core.networks.architecture.options import Options, flag, only, whole
from core.networks.architecture.rule import Rule, Shape, Work, size, with_axes


def product(places: int, inputs: int, units: int, bias: bool) -> Work:
    """Count ``places`` vectors of ``inputs`` values, each multiplied by one matrix, as in a Dense layer."""
    flops = places * (2 * inputs * units + units * bias)
    return Work(
        output=(places, units),
        weights=(inputs + bias) * units,
        forward=flops,
        weight_gradient=flops,
        input_gradient=2 * places * inputs * units,
    )


def with_activation(work: Work, name: str) -> Work:
    """Return the work with an activation function added at its end."""
    extra = activated(name, size(work.output))
    return replace(
        work,
        forward=work.forward + extra.forward,
        weight_gradient=work.weight_gradient + extra.weight_gradient,
        internal=work.internal + extra.internal,
    )


def _dense(options: Options, shapes: tuple[Shape, ...]) -> Work:
    *places, inputs = shapes[0]
    work = product(size(tuple(places)), inputs, options["units"], options["use_bias"])
    return with_activation(replace(work, output=(*places, options["units"])), options["activation"])


def _embedding(options: Options, shapes: tuple[Shape, ...]) -> Work:
    output = (*with_axes(shapes[0], 1, "token ids in a row"), options["output_dim"])
    return Work(output, weights=options["input_dim"] * options["output_dim"], weight_gradient=size(output))


RULES = {
    "Dense": Rule(
        {
            "units": whole(),
            "activation": activation(),
            "use_bias": flag(True),
            "lora_rank": only(None),
            "lora_alpha": only(None),
            "quantization_config": only(None),
        },
        _dense,
    ),
    "Embedding": Rule(
        {
            "input_dim": whole(),
            "output_dim": whole(),
            "mask_zero": flag(False),
            "weights": only(None),
            "lora_rank": only(None),
            "lora_alpha": only(None),
            "quantization_config": only(None),
        },
        _embedding,
        takes_tokens=True,
    ),
}
