"""Shapes and counts of a graph's layers, computed from its description alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from core.base.schema import UserError
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.options import (
    MAX_ACTIVATIONS,
    MAX_FLOPS,
    MAX_LAYERS,
    MAX_OPTION,
    MAX_PARAMETERS,
    MAX_RANK,
    shown,
)
from core.networks.architecture.rule import Rule, Shape, Work, size
from core.networks.architecture.rules import RULES


class ArchitectureError(UserError):
    """An invalid network; the message names the layer and the problem."""

    @classmethod
    def at(cls, name: str, kind: str, reason: str) -> ArchitectureError:
        """Return the error at one layer, as in: Layer “conv_3” (Conv2D): the reason."""
        return cls(f"Layer {shown(name)} ({shown(kind)[1:-1]}): {reason}.")


@dataclass(frozen=True)
class _Counted:
    layer: Layer
    input_shapes: tuple[Shape, ...]
    work: Work
    trained_before: bool


def count(graph: Graph) -> tuple[LayerCount, ...]:
    """Count each call of a layer, per sample, first to last; :mod:`core.networks.architecture.rule` defines what
    counts.

    A shared layer's parameters count at its first call. ``input_gradient_flops`` is zero if no trained weights come
    before the layer, since nothing needs the gradient there. Raises ArchitectureError.
    """
    counts = tuple(_count_layer(each) for each in _walk(graph))
    _within("parameters", sum(each.parameters for each in counts), MAX_PARAMETERS)
    _within("activations of one sample", sum(each.activations + each.internal for each in counts), MAX_ACTIVATIONS)
    flops = sum(each.forward_flops + each.weight_gradient_flops + each.input_gradient_flops for each in counts)
    _within("operations for one sample", flops, MAX_FLOPS)
    return counts


def shapes(graph: Graph) -> dict[str, Shape]:
    """Return the output shape of each layer by name, without the batch, and the input's. Raises ArchitectureError."""
    return {INPUT: graph.input_shape, **graph.caches, **{each.layer.name: each.work.output for each in _walk(graph)}}


def output_shape(graph: Graph) -> Shape:
    """Return the shape of the network's output for one sample. Raises ArchitectureError."""
    return shapes(graph)[graph.output]


def _count_layer(counted: _Counted) -> LayerCount:
    work = counted.work
    return LayerCount(
        name=counted.layer.name,
        parameters=0 if counted.layer.shares else work.weights + work.statistics,
        forward_flops=work.forward,
        weight_gradient_flops=work.weight_gradient,
        input_gradient_flops=work.input_gradient if counted.trained_before else 0,
        activations=size(work.output),
        internal=work.internal,
    )


def _walk(graph: Graph) -> list[_Counted]:
    _check_frame(graph)
    known: dict[str, Shape] = {INPUT: graph.input_shape, **graph.caches}
    trained = dict.fromkeys(known, False)
    made: dict[str, _Counted] = {}
    calls: list[_Counted] = []
    for layer in graph.layers:
        owner, rule, input_shapes = _placed(layer, known, made)
        _check_tokens(graph, layer, owner, rule)
        try:
            work = rule.work(rule.complete(owner.options), input_shapes)
        except ValueError as error:
            raise ArchitectureError.at(layer.name, owner.kind, str(error)) from None
        if max(work.output) > MAX_OPTION or len(work.output) > MAX_RANK or size(work.output) > MAX_ACTIVATIONS:
            too_large = f"its output of the shape {_short(work.output)} is too large"
            raise ArchitectureError.at(layer.name, owner.kind, too_large)
        before = any(trained[name] for name in layer.inputs)
        calls.append(_Counted(layer, input_shapes, work, before))
        if layer.shares is None:
            made[layer.name] = calls[-1]
        else:
            _check_shared(layer, made[layer.shares], input_shapes, work)
        known[layer.name] = work.output
        trained[layer.name] = before or work.weights > 0
    if graph.output not in known or graph.output == INPUT:
        raise ArchitectureError(f"The network's output is {shown(graph.output)}, which is none of its layers.")
    return calls


def _check_frame(graph: Graph) -> None:
    shape = graph.input_shape
    if not 1 <= len(shape) <= MAX_RANK or not all(_positive(n) for n in shape) or size(shape) > MAX_ACTIVATIONS:
        raise ArchitectureError(
            f"A sample of the shape {_short(shape)} is not supported; accepted: 1 to {MAX_RANK} positive whole numbers."
        )
    if graph.vocabulary is not None and not _positive(graph.vocabulary):
        raise ArchitectureError(f"A vocabulary of {shown(graph.vocabulary)} is not supported; accepted is 1 at least.")
    if not 1 <= len(graph.layers) <= MAX_LAYERS:
        raise ArchitectureError(f"The network has {len(graph.layers)} layers; accepted are 1 to {MAX_LAYERS}.")


def _positive(value: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_OPTION


def _placed(layer: Layer, known: dict[str, Shape], made: dict[str, _Counted]) -> tuple[Layer, Rule, tuple[Shape, ...]]:
    """Return the layer whose weights this call uses, its rule, and the shapes of its inputs."""
    refused = partial(ArchitectureError.at, layer.name, layer.kind)
    if layer.name in known:
        raise refused("another layer has the same name")
    if layer.kind not in RULES:
        raise refused("this kind of layer is not supported")
    for name in layer.inputs:
        if name not in known:
            raise refused(f"its input {shown(name)} is no layer before it")
    rule = RULES[layer.kind]
    least, most = rule.inputs
    if not least <= len(layer.inputs) <= most:
        accepted = f"{least}" if least == most else f"{least} to {most}"
        raise refused(f"it has {len(layer.inputs)} inputs; accepted are {accepted}")
    input_shapes = tuple(known[name] for name in layer.inputs)
    if layer.shares is None:
        return layer, rule, input_shapes
    first = made.get(layer.shares)
    if first is None or first.layer.kind != layer.kind or layer.options:
        raise refused(f"it shares the weights of {shown(layer.shares)}, which is no layer of its kind before it")
    return first.layer, rule, input_shapes


def _check_shared(layer: Layer, first: _Counted, input_shapes: tuple[Shape, ...], work: Work) -> None:
    """Check that shared weights fit: the new input needs the same number of weights, axes and last-axis values."""
    ends = [[(len(shape), shape[-1]) for shape in each] for each in (first.input_shapes, input_shapes)]
    weights = [(each.weights, each.statistics) for each in (first.work, work)]
    if any(weights[0]) and (ends[0] != ends[1] or weights[0] != weights[1]):
        reason = (
            f"it shares weights of a layer on {_short(first.input_shapes[0])} and is given {_short(input_shapes[0])}"
        )
        raise ArchitectureError.at(layer.name, layer.kind, reason)


def _check_tokens(graph: Graph, layer: Layer, owner: Layer, rule: Rule) -> None:
    """Check that token ids go into embeddings only, and that an embedding takes them straight from the input."""
    refused = partial(ArchitectureError.at, layer.name, layer.kind)
    if rule.takes_tokens and (graph.vocabulary is None or layer.inputs != (INPUT,)):
        raise refused("it takes token ids, which the network's input must be")
    if graph.vocabulary is not None and INPUT in layer.inputs:
        if not rule.takes_tokens:
            raise refused("the network's input holds token ids, for an Embedding")
        if owner.options.get("input_dim", 0) < graph.vocabulary:
            raise refused(f"option “input_dim” is below the {graph.vocabulary} token ids of the network's input")


def _within(words: str, value: int, most: int) -> None:
    if value > most:
        raise ArchitectureError(f"The network has {value:.3g} {words}; accepted are {most:.3g} at most.")


def _short(shape: Shape) -> str:
    return "(" + ", ".join(shown(n) for n in shape[:MAX_RANK]) + (", …)" if len(shape) > MAX_RANK else ")")


@dataclass(frozen=True)
class LayerCount:
    """Per-sample counts of one layer.

    ``forward_flops`` counts a multiply-add as 2. ``activations`` is the number of values the layer outputs,
    ``internal`` the number it computes inside and training keeps for the backward pass (gates of an LSTM, attention
    scores). ``input_gradient_flops`` is the backward pass's work for the layer's input (zero for the first layer).
    """

    name: str
    parameters: int
    forward_flops: int
    weight_gradient_flops: int
    input_gradient_flops: int
    activations: int
    internal: int = 0
