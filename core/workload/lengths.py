"""Inputs of several lengths: a histogram of them, the order in which a step meets them, and how they are padded.

A step of such a workload is the mean over one pass through the mix, a few batches that hold each length about as often
as the histogram does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Annotated

from pydantic import Field

from core.base.frameworks import Padding
from core.base.schema import UserError
from core.networks.families import Network

MAX_LENGTH, MAX_LENGTHS, MAX_COUNT = 100_000, 12, 10**12
MIX = 20
"""Most batches in one pass: shares are kept to a twentieth."""
BUCKETS = 3

Lengths = Annotated[
    tuple[tuple[Annotated[int, Field(ge=1, le=MAX_LENGTH)], Annotated[int, Field(ge=1, le=MAX_COUNT)]], ...],
    Field(max_length=MAX_LENGTHS),
]
"""Pairs of a length and how often it occurs, shortest first; empty for a workload of one length."""


def parse_lengths(text: str) -> Lengths:
    """Parse ``20,60,200``, or ``20:5,60:3,200:1`` with how often each occurs. Raises UserError."""
    counts: dict[int, int] = {}
    try:
        for part in filter(None, (part.strip() for part in text.split(","))):
            length, _, count = part.partition(":")
            counts[int(length)] = counts.get(int(length), 0) + int(count or "1")
    except ValueError:
        raise UserError(
            f"Lengths “{text}” are not understood; write a list such as 20,60,200, or how often each occurs, as in "
            "20:5,60:3,200:1."
        ) from None
    return tuple(sorted(counts.items()))


def written_lengths(lengths: Lengths) -> str:
    """Return the text that :func:`parse_lengths` reads back."""
    alike = len({count for _, count in lengths}) <= 1
    return ",".join(str(length) if alike else f"{length}:{count}" for length, count in lengths)


def refuse_lengths(network: Network, lengths: Lengths) -> None:
    """Raise ValueError if the network cannot take inputs of these lengths."""
    if [length for length, _ in lengths] != sorted({length for length, _ in lengths}):
        raise ValueError("lengths must rise, each given once")
    longest = lengths[-1][0]
    try:
        shortest = network.with_length(lengths[0][0])
    except UserError as error:
        raise ValueError(str(error).rstrip(".")) from None
    if longest != network.input_shape[0]:
        raise ValueError(
            f"the longest of the lengths is {longest:,} and {network.name} takes {network.input_shape[0]:,}; choose a "
            "network for the longest"
        )
    if shortest.parameters != network.parameters:
        raise ValueError(f"the weights of {network.name} depend on the length, so it takes one length only")


def mix(lengths: Lengths) -> tuple[int, ...]:
    """Return the lengths of one pass in the order in which they are met, spread as evenly as they can be."""
    total = sum(count for _, count in lengths)
    batches = min(MIX, total)
    exact = {length: batches * count / total for length, count in lengths}
    times = {length: max(1, int(share)) for length, share in exact.items()}
    for length in sorted(exact, key=lambda each: times[each] - exact[each]):
        if sum(times.values()) < batches:
            times[length] += 1
    places = [((turn + 0.5) / count, length) for length, count in times.items() for turn in range(count)]
    return tuple(length for _, length in sorted(places))


def padded(lengths: Lengths, padding: Padding) -> tuple[int, ...]:
    """Return the lengths of one pass as the step meets them, after padding."""
    if padding == "longest":
        return tuple(lengths[-1][0] for _ in mix(lengths))
    if padding == "buckets":
        ends = bucket_ends(lengths)
        return tuple(min(end for end in ends if end >= length) for length in mix(lengths))
    return mix(lengths)


def bucket_ends(lengths: Lengths) -> tuple[int, ...]:
    """Return the longest length of each bucket, chosen so that the least is padded."""
    *shorter, longest = [length for length, _ in lengths]
    choices = [(*ends, longest) for ends in combinations(shorter, min(BUCKETS - 1, len(shorter)))]

    def positions(ends: tuple[int, ...]) -> int:
        return sum(count * min(end for end in ends if end >= length) for length, count in lengths)

    return min(choices, key=positions)


def merged(counts: Iterable[tuple[int, int]]) -> Lengths:
    """Return a histogram of at most :data:`MAX_LENGTHS` lengths: neighbours are merged, as the longer of the two."""
    rest = sorted(counts)
    while len(rest) > MAX_LENGTHS:
        cost = [rest[at][1] * (rest[at + 1][0] - rest[at][0]) for at in range(len(rest) - 1)]
        at = cost.index(min(cost))
        (_, fewer), (length, more) = rest[at : at + 2]
        rest[at : at + 2] = [(length, fewer + more)]
    return tuple(rest)
