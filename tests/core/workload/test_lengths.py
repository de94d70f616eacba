"""Inputs of several lengths: reading, the mix of one pass, padding, and what is refused."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.schema import UserError
from core.networks.families import network_from_name
from core.workload.lengths import (
    BUCKETS,
    MAX_LENGTHS,
    MIX,
    Lengths,
    bucket_ends,
    merged,
    mix,
    padded,
    parse_lengths,
    written_lengths,
)
from core.workload.spec import Pipeline, Target, Workload, refuse_mode, steps_per_call

GRU = network_from_name("gru-8x1-20x4-3")
THREE = ((5, 3), (12, 2), (20, 1))
SEVERAL = Workload(network=GRU, mode="infer", lengths=THREE)
HOST = Pipeline(kind="host")

histograms = st.dictionaries(st.integers(1, 500), st.integers(1, 10_000), min_size=1, max_size=MAX_LENGTHS).map(
    lambda counts: tuple(sorted(counts.items()))
)


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("", ()),
        (" 60, 20 ,200 ", ((20, 1), (60, 1), (200, 1))),
        ("20:5,60:3,200:1", ((20, 5), (60, 3), (200, 1))),
        ("20,20,60", ((20, 2), (60, 1))),
    ],
)
def test_a_text_is_read(text: str, lengths: Lengths) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize("text", ["twenty", "20:", "20:5:1", "20;60", "1e3", "20:x"])
def test_a_wrong_text_is_answered_with_an_example(text: str) -> None:
    if text == "20:":
        assert parse_lengths(text) == ((20, 1),)
        return
    with pytest.raises(UserError, match="20:5,60:3,200:1"):
        parse_lengths(text)


@given(histograms)
def test_what_is_written_is_read_back(lengths: Lengths) -> None:
    again = parse_lengths(written_lengths(lengths))
    alike = len({count for _, count in lengths}) == 1
    assert again == (tuple((length, 1) for length, _ in lengths) if alike else lengths)


@given(histograms)
def test_a_pass_holds_every_length_about_as_often_as_the_histogram(lengths: Lengths) -> None:
    batches, total = mix(lengths), sum(count for _, count in lengths)
    assert set(batches) == {length for length, _ in lengths}
    assert min(MIX, total) <= len(batches) <= MIX + len(lengths)
    for length, count in lengths:
        assert abs(batches.count(length) - min(MIX, total) * count / total) <= 1


def test_the_lengths_of_a_pass_alternate() -> None:
    assert mix(THREE) == (5, 12, 5, 20, 12, 5)


@given(histograms)
def test_buckets_pad_the_least_of_all_choices(lengths: Lengths) -> None:
    ends, ways = bucket_ends(lengths), [length for length, _ in lengths]

    def positions(chosen: tuple[int, ...]) -> int:
        return sum(count * min(end for end in chosen if end >= length) for length, count in lengths)

    assert len(ends) == min(BUCKETS, len(lengths))
    assert ends[-1] == ways[-1]
    assert positions(ends) == min(
        positions((*chosen, ways[-1]))
        for size in range(min(BUCKETS, len(ways)))
        for chosen in combinations(ways[:-1], size)
    )


def test_padding_is_to_the_longest_or_to_a_bucket_s_end() -> None:
    lengths = ((5, 3), (12, 2), (18, 1), (20, 1))
    assert set(padded(lengths, "longest")) == {20}
    assert sorted(set(padded(lengths, "buckets"))) == [5, 12, 20]
    assert padded(lengths, "none") == mix(lengths)


@given(st.dictionaries(st.integers(1, 5_000), st.integers(1, 100), min_size=1, max_size=200))
def test_many_lengths_are_merged_into_longer_ones(counts: dict[int, int]) -> None:
    lengths = merged(counts.items())
    assert len(lengths) == min(MAX_LENGTHS, len(counts))
    assert sum(count for _, count in lengths) == sum(counts.values())
    assert lengths[-1][0] == max(counts)
    assert {length for length, _ in lengths} <= set(counts)
    for bound, _ in lengths:  # nothing is counted as shorter than it is
        at_most = sum(count for length, count in counts.items() if length <= bound)
        assert sum(count for length, count in lengths if length <= bound) == at_most


def test_the_work_of_a_step_is_the_mean_of_its_lengths_unpadded() -> None:
    each = [GRU.with_length(length).flops_per_sample(False) for length in (5, 5, 5, 12, 12, 20)]
    assert SEVERAL.flops_per_sample == sum(each) // 6
    assert SEVERAL.flops_per_sample < Workload(network=GRU, mode="infer").flops_per_sample
    assert (steps_per_call(SEVERAL, Target()), steps_per_call(Workload(network=GRU), Target())) == (6, 1)


def test_records_without_lengths_are_written_as_before() -> None:
    assert "lengths" not in Workload(network=GRU).model_dump(mode="json")
    assert "pad" not in Target().model_dump(mode="json")
    assert Workload.model_validate(SEVERAL.model_dump(mode="json")) == SEVERAL


@pytest.mark.parametrize(
    ("network", "lengths", "words"),
    [
        ("gru-8x1-20x4-3", ((12, 1), (5, 1)), "must rise"),
        ("gru-8x1-20x4-3", ((5, 1), (12, 1)), "choose a network for the longest"),
        ("lenet5", ((5, 1), (28, 1)), "takes no sequences"),
        ("20-16-4", ((5, 1), (20, 1)), "takes no sequences"),
    ],
)
def test_lengths_that_a_network_cannot_take_are_refused(network: str, lengths: Lengths, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Workload(network=network_from_name(network), lengths=lengths)


@pytest.mark.parametrize(
    ("workload", "target", "pipeline", "words"),
    [
        (Workload(network=GRU), Target(pad="longest"), HOST, "--lengths"),
        (Workload(network=GRU, mode="infer"), Target(call="relaxed"), HOST, "call=function"),
        (SEVERAL, Target(framework="litert"), HOST, "run through Keras"),
        (SEVERAL, Target(steps_per_execution=8), HOST, "steps_per_execution"),
        (SEVERAL, Target(device="gpu:0+1"), HOST, "one device"),
        (SEVERAL, Target(), Pipeline(), "host pipeline"),
        (SEVERAL, Target(pad="buckets"), HOST, "need no buckets"),
    ],
)
def test_what_cannot_run_with_several_lengths_is_refused(
    workload: Workload, target: Target, pipeline: Pipeline, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        refuse_mode(workload, target, pipeline)
