"""Attention layers: scores between steps, and the projections around them."""

from __future__ import annotations

from dataclasses import replace

from core.networks.architecture.kinds.activation import SOFTMAX_FLOPS
from core.networks.architecture.kinds.dense import product
from core.networks.architecture.options import Options, flag, maybe, only, real, whole, wholes, word
from core.networks.architecture.rule import Rule, Shape, Work, pointwise, size, with_axes

STEPS = "steps and features"


def _query_value_key(shapes: tuple[Shape, ...]) -> tuple[Shape, Shape, Shape]:
    """Return the three inputs, with the value as key if none is given. Raises ValueError."""
    query, value, key = (with_axes(shape, 2, STEPS) for shape in (*shapes, *shapes[1:2])[:3])
    if key[0] != value[0]:
        raise ValueError(f"its value has {value[0]} steps and its key {key[0]}; they must be as many")
    return query, value, key


def _check_features(query: Shape, key: Shape) -> None:
    if query[1] != key[1]:
        raise ValueError(f"its query has {query[1]} features and its key {key[1]}; they must be as many")


def _scores(heads: int, query: int, keys: int, key_dim: int, value_dim: int, dropout: float) -> Work:
    """Count scaled products of queries and keys, softmax, and weighted sums of values (Vaswani et al. 2017).

    Everything but the output is internal: the scaled operand (in Keras, queries with dropout, scores without), the
    scores, their softmax, and with dropout its mask and its result.
    """
    pairs = heads * query * keys
    products = 2 * pairs * (key_dim + value_dim)
    scaled = heads * query * key_dim if dropout else pairs
    other = SOFTMAX_FLOPS * pairs + scaled
    return Work(
        output=(query, heads * value_dim),
        forward=products + other,
        weight_gradient=2 * products + other,
        internal=scaled + 2 * pairs + (2 * pairs if dropout else 0),
    )


def _projected(
    options: Options, shapes: tuple[Shape, ...], heads: int, shared: int, sizes: tuple[int, int, int]
) -> Work:
    """Count the projections of query (``heads``), key and value (``shared`` heads), scores, and output projection.

    ``sizes`` are the values per head of a key and of a value, and the features of the output.
    """
    query, value, key = _query_value_key(shapes)
    key_dim, value_dim, features = sizes
    bias = options["use_bias"]
    inputs = (
        product(query[0], query[1], heads * key_dim, bias),
        product(key[0], key[1], shared * key_dim, bias),
        product(value[0], value[1], shared * value_dim, bias),
    )
    scores = _scores(heads, query[0], key[0], key_dim, value_dim, options["dropout"])
    last = product(query[0], heads * value_dim, features, bias)
    parts = (*inputs, scores, last)
    return Work(
        output=(query[0], features),
        weights=sum(part.weights for part in parts),
        forward=sum(part.forward for part in parts),
        weight_gradient=sum(part.weight_gradient for part in parts) + last.input_gradient,
        input_gradient=sum(part.input_gradient for part in inputs),
        internal=sum(size(part.output) for part in (*inputs, scores)) + scores.internal,
    )


def _multi_head(options: Options, shapes: tuple[Shape, ...]) -> Work:
    heads, key_dim = options["num_heads"], options["key_dim"]
    features = options["output_shape"] or shapes[0][-1:]
    if len(features) != 1:
        raise ValueError(f"option “output_shape” is {features}; accepted: one whole number")
    return _projected(options, shapes, heads, heads, (key_dim, options["value_dim"] or key_dim, features[0]))


def _causal(options: Options, shapes: tuple[Shape, ...]) -> Work:
    """Count all pairs of positions: Keras computes the masked ones, too."""
    return _multi_head(_whole(options), (shapes[0], shapes[0]))


def _cached(options: Options, shapes: tuple[Shape, ...]) -> Work:
    """Count the projections of one token, and scores with it and all that are cached."""
    (steps, features), keys, values = shapes
    heads, key_dim = options["num_heads"], options["key_dim"]
    if keys != values or keys[1:] != (heads, key_dim):
        raise ValueError(f"its cached keys have the shape {keys} and its values {values}")
    own = _multi_head(_whole(options), (shapes[0], shapes[0]))
    few, all_of = (_scores(heads, steps, count, key_dim, key_dim, 0.0) for count in (steps, keys[0] + steps))
    return replace(
        own,
        output=(steps, features),
        forward=own.forward - few.forward + all_of.forward,
        internal=own.internal - few.internal + all_of.internal,
    )


def _whole(options: Options) -> Options:
    return {**options, "value_dim": None, "output_shape": None}


def _grouped_query(options: Options, shapes: tuple[Shape, ...]) -> Work:
    heads, shared, key_dim = options["num_query_heads"], options["num_key_value_heads"], options["head_dim"]
    if heads % shared:
        raise ValueError(f"option “num_query_heads” is {heads}; it must be a multiple of the {shared} key heads")
    return _projected(options, shapes, heads, shared, (key_dim, key_dim, shapes[0][-1]))


def _dot_product(options: Options, shapes: tuple[Shape, ...]) -> Work:
    query, value, key = _query_value_key(shapes)
    _check_features(query, key)
    pairs, scale = query[0] * key[0], options["use_scale"]
    products = 2 * pairs * (key[1] + value[1])
    return Work(
        (query[0], value[1]),
        weights=int(scale),
        forward=products + (SOFTMAX_FLOPS + scale) * pairs,
        weight_gradient=2 * pairs * scale,
        input_gradient=2 * products + SOFTMAX_FLOPS * pairs,
        internal=(2 + scale + 2 * (options["dropout"] > 0)) * pairs,
    )


def _additive(options: Options, shapes: tuple[Shape, ...]) -> Work:
    """Count additive attention (Bahdanau et al. 2015): a sum over features of tanh(query + key), per pair of steps."""
    query, value, key = _query_value_key(shapes)
    _check_features(query, key)
    pairs = query[0] * key[0]
    each = 3 * pairs * key[1] + SOFTMAX_FLOPS * pairs
    weighted = 2 * pairs * value[1]
    return Work(
        (query[0], value[1]),
        weights=key[1] * options["use_scale"],
        forward=each + weighted,
        weight_gradient=2 * pairs * key[1] * options["use_scale"],
        input_gradient=each + 2 * weighted,
        internal=2 * pairs * key[1] + 2 * pairs,
    )


HEADS = {
    "dropout": real(0, 1, 0.0),
    "use_bias": flag(True),
    "sliding_window": only(None),
    "flash_attention": only(None),
    "use_gate": only(False),
}
FROM_TWO = (2, 3)
OURS = {"num_heads": whole(), "key_dim": whole(), **HEADS}

RULES = {
    "MultiHeadAttention": Rule(
        {
            "num_heads": whole(),
            "key_dim": whole(),
            "value_dim": maybe(whole()),
            **HEADS,
            "output_shape": maybe(wholes(1, 2**31 - 1)),
            "attention_axes": only(None),
        },
        _multi_head,
        FROM_TWO,
        "several",
    ),
    "GroupQueryAttention": Rule(
        {"head_dim": whole(), "num_query_heads": whole(), "num_key_value_heads": whole(), **HEADS},
        _grouped_query,
        FROM_TWO,
        "several",
    ),
    "CausalAttention": Rule(OURS, _causal, call="several", public=False, ours=True),
    "CachedAttention": Rule(OURS, _cached, (3, 3), "several", public=False, ours=True),
    "LastStep": Rule({}, lambda _, shapes: pointwise(with_axes(shapes[0], 2, STEPS)[1:]), public=False, ours=True),
    "Attention": Rule(
        {"use_scale": flag(False), "score_mode": word("dot", default="dot"), "dropout": real(0, 1, 0.0)},
        _dot_product,
        FROM_TWO,
        "list",
    ),
    "AdditiveAttention": Rule({"use_scale": flag(True), "dropout": real(0, 1, 0.0)}, _additive, FROM_TWO, "list"),
}
