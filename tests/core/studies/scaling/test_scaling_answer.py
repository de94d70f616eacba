"""The answer of a scaling study on handmade records: efficiencies, crossovers, causes and remedies."""

import math
from typing import Any

import pytest

from core.base.frameworks import FRAMEWORKS
from core.base.schema import UserError
from core.rounds.run import Cell
from core.studies.scaling.answer import Efficiency, ScalingAnswer, Several, paired, scaling_answer
from core.studies.scaling.export import (
    ACCUMULATING,
    efficiency_words,
    headline,
    notes,
    reasons,
    remedies,
    scaling_data,
    scaling_text,
)
from core.studies.scaling.kind import SCALING
from core.studies.scaling.record import ScalingStudy
from core.workload.spec import Target
from simulated.scalings import BATCHES, FOUR, LOGICAL, ONE, TRUTH, TWO, Truth, make_scaling_study, scaling_plan, setups
from simulated.simulation import Curve

NEVER = Truth(together_ms=40.0, all_reduce_ms=35.0)
"""Working together costs more than any of these batches takes."""
ALL_FIXED = Truth(one=Curve(5.0, 0.0002), together_ms=0.1, all_reduce_ms=0.05)
"""A step takes equally long at every batch, so that there is nothing to share out."""
FREE = Truth(one=Curve(0.01, 0.004), together_ms=0.001, all_reduce_ms=0.0005)


JAX = tuple(Target.parse(f"{device},framework=jax") for device in ("gpu:0", "gpu:0+1"))


def only(answer: ScalingAnswer) -> Several:
    (found,) = answer.several
    return found


def said(truth: Truth, **options: Any) -> str:
    answer = scaling_answer(make_scaling_study(truth=truth, **options))
    return "\n".join((*reasons(answer), *(remedy.sentence for remedy in remedies(answer))))


def codes(truth: Truth, **options: Any) -> list[str]:
    return [remedy.code for remedy in remedies(scaling_answer(make_scaling_study(truth=truth, **options)))]


def near(found: tuple[Efficiency, ...], truth: Any, batches: tuple[int, ...] = BATCHES) -> bool:
    """Check that these are the batches, each near its truth, with an interval that covers it."""
    assert tuple(one.batch for one in found) == batches
    return all(abs(one.value / truth(one.batch) - 1) < 0.03 and one.low < truth(one.batch) < one.high for one in found)


def test_efficiencies_are_those_of_the_truth() -> None:
    found = only(scaling_answer(make_scaling_study(seed=3)))
    assert near(found.strong, lambda batch: TRUTH.strong(batch, 2))
    assert near(found.weak, lambda batch: TRUTH.weak(batch, 2), BATCHES[1:])
    assert near(found.replica, lambda batch: TRUTH.step_ms(batch, 1) / (2 * TRUTH.step_ms(batch / 2, 1)), BATCHES[1:])
    assert [one.a_replica for one in found.weak] == [one.batch // 2 for one in found.weak]


def test_the_strong_efficiency_is_the_product_of_what_it_is_lost_to() -> None:
    found = only(scaling_answer(make_scaling_study(noise=1e-6)))
    whys = [why for why in (found.slower, found.largest) if why is not None]
    assert len(whys) == 2
    for why in whys:
        assert math.isclose(why.strong.value, why.replica.value * why.together.value, rel_tol=1e-4)


def test_the_crossover_is_that_of_the_truth_and_the_reason_stands_below_it() -> None:
    answer = scaling_answer(make_scaling_study())
    (change,) = only(answer).verdict.crossovers
    assert change.low < TRUTH.crossover(2) < change.high
    assert only(answer).slower.batch == 256
    assert "faster from batch" in headline(answer)
    (largest,) = efficiency_words(answer)
    assert "batch 4,096: 1.8" in largest
    assert "efficiency of 9" in largest


class Slow(Truth):
    """Truth in which working together costs as much of every step, and hardly less of the largest."""

    def step_ms(self, batch: float, replicas: int) -> float:
        slower = 1.0 if replicas == 1 else 2.09 if batch < 4096 else 2.02
        return self.one.step_ms(batch / replicas) * slower


@pytest.mark.parametrize(
    ("truth", "options", "remedies", "sentences"),
    [
        pytest.param(NEVER, {"trace": (32, 4096)}, ["batch", "accumulate", "fewer"], [
            "Why GPUs 0 and 1 are slower at batch 4,096: the strong efficiency of ",
            "Most is lost to working together: all-reduce, launching the step",
            "The all-reduce of GPUs 0 and 1 takes 73 % (72 to 73) of a step at batch 4,096 (traced).",
            "with one all-reduce in 4 steps of batch 4,096, which then update the weights together, steps are at most",
            "2.22 times as fast (predicted from the traced share). It takes a training loop of your own",
            "A larger batch per replica than measured may help GPUs 0 and 1: with 16 samples per replica the",
            "Use GPU 0 alone: it is faster at every batch size measured.",
        ], id="working together is the cause, with its all-reduce"),
        pytest.param(ALL_FIXED, {}, None, [
            "Most is lost to the smaller batch per replica, where the fixed cost of a step weighs more.",
            "Why GPUs 0 and 1 are no faster at batch 4,096",
            "what GPU 0 keeps with 2,048 samples in place of 4,096",
        ], id="too little work per replica is the cause"),
        pytest.param(TRUTH, {}, ["batch"], [
            "A larger batch per replica helps GPUs 0 and 1: with 2,048 samples per replica (batch 4,096) the",
        ], id="a larger batch helps"),
        pytest.param(Slow(one=Curve(0.01, 0.004)), {"noise": 0.007}, None, [
            "It is not clear that a larger batch per replica helps GPUs 0 and 1: with 2,048 s",
        ], id="no batch is clearly better"),
        pytest.param(Slow(one=Curve(0.01, 0.004)), {"batches": BATCHES[:-1], "noise": 0.007}, ["fewer"], [],
                     id="not higher at the largest batch"),
        pytest.param(NEVER, {}, ["batch", "fewer"], [
            "The all-reduce of GPUs 0 and 1 was not measured; with all else of working together it takes at most",
        ], id="without a trace"),
        pytest.param(NEVER, {"trace": BATCHES}, None, ["gradient_accumulation_steps fails on several devices."],
                     id="accumulation in TensorFlow"),
        pytest.param(NEVER, {"trace": BATCHES, "targets": JAX}, None, [
            "sums the gradients of the devices in every step all the same.",
        ], id="accumulation in JAX"),
    ],
)  # fmt: skip
def test_causes_and_remedies(
    truth: Truth, options: dict[str, Any], remedies: list[str] | None, sentences: list[str]
) -> None:
    text = said(truth, **options)
    assert [sentence for sentence in sentences if sentence not in text] == []
    assert remedies is None or codes(truth, **options) == remedies


def test_an_all_reduce_that_no_trace_tells_is_no_number() -> None:
    untold = make_scaling_study(truth=NEVER)
    untold = untold.model_copy(update={"traces": (NEVER.traced(1, 2, 4096, told=False),)})
    assert only(scaling_answer(untold)).traced == ()


def test_a_trace_that_is_not_to_be_trusted_says_nothing() -> None:
    study = make_scaling_study(truth=NEVER, trace=(4096,))
    slowed = study.traces[0].model_copy(update={"profiled_step_ms": 2 * study.traces[0].unprofiled_step_ms})
    assert only(scaling_answer(study.model_copy(update={"traces": (slowed,)}))).traced == ()


def test_what_accumulation_brings_is_no_more_than_working_together_costs() -> None:
    """Trace an all-reduce beside the arithmetic: the trace shows more of it than a step would save without it."""
    beside = Truth(together_ms=0.8, all_reduce_ms=5.0)
    study = make_scaling_study(truth=beside, trace=(256,))
    found = only(scaling_answer(study))
    (traced,) = found.traced
    most = traced.most_gained(1 - found.slower.together.low)
    assert most < traced.most_gained(None)
    assert f"at most {most:.3g} times as fast" in said(beside, trace=(256,))


def test_inference_has_no_all_reduce() -> None:
    work = scaling_plan().workload.model_copy(update={"mode": "infer"})
    text = said(NEVER, plan={"workload": work}, trace=(4096,))
    assert "need no all-reduce" in text
    assert "accumulation" not in text


def test_efficient_devices_need_no_remedy() -> None:
    answer = scaling_answer(make_scaling_study(truth=FREE))
    assert answer.verdict.ahead == "gpu:0+1"
    assert reasons(answer) == remedies(answer) == ()


def test_of_several_counts_each_has_its_crossover_and_fewer_may_be_named() -> None:
    class Rising(Truth):
        """Truth in which four devices cost far more than two."""

        def step_ms(self, batch: float, replicas: int) -> float:
            return self.one.step_ms(batch / replicas) + {1: 0.0, 2: 0.2, 4: 20.0}[replicas]

    answer = scaling_answer(make_scaling_study(truth=Rising(), targets=(ONE, TWO, FOUR)))
    two, four = answer.several
    assert (two.replicas, four.replicas) == (2, 4)
    assert two.verdict.kind == "crossover"
    assert four.verdict.ahead == "gpu:0"
    assert answer.answer.fastest is not None
    assert remedies(answer)[-1].sentence.startswith("Use fewer devices:")


def test_logical_cpus_are_a_try_out_from_the_first_word_and_get_no_advice() -> None:
    answer = scaling_answer(make_scaling_study(truth=NEVER, targets=LOGICAL))
    assert headline(answer).startswith("Logical CPUs share")
    assert efficiency_words(answer) == remedies(answer) == ()
    assert scaling_text(answer).startswith(headline(answer))


def test_too_few_rounds_claim_nothing() -> None:
    study = make_scaling_study(processes=1, rounds=2, batches=(64, 128))
    answer = scaling_answer(study.model_copy(update={"rounds": study.rounds[::2]}))
    found = only(answer)
    assert all(one.low is None for one in (*found.strong, *found.weak))
    assert (found.slower, found.largest) == (None, None)
    assert "too few rounds" in efficiency_words(answer)[0]
    assert reasons(answer) == remedies(answer) == ()
    with pytest.raises(UserError, match="no measured round"):
        scaling_answer(make_scaling_study(processes=0))


def test_a_different_compilation_is_said() -> None:
    study = make_scaling_study()
    assert notes(scaling_answer(study)) == ()
    (note,) = notes(scaling_answer(study.model_copy(update={"setups": setups("xla", "graph")})))
    assert "compiled differently" in note
    assert notes(scaling_answer(study.model_copy(update={"setups": setups("graph", "graph")}))) == ()


def test_what_failed_is_said_and_the_rest_stands() -> None:
    study = make_scaling_study()
    rounds = tuple(
        item.model_copy(update={"blocks": tuple(b for b in item.blocks if item.batch < 4096 or b.target)})
        for item in study.rounds
    )
    cells = (*study.cells, Cell(target=0, batch=4096, outcome="out_of_memory", reason="Out of memory on GPU:0."))
    answer = scaling_answer(study.model_copy(update={"rounds": rounds, "cells": cells}))
    assert "batch 4,096: Out" in notes(answer)[0]
    found = only(answer)
    assert found.strong[-1].batch == 2048
    assert found.weak[-1].batch == 4096


def test_pairs_are_of_the_same_pass_of_the_same_start() -> None:
    study = make_scaling_study()
    run = paired(study.run, 0, 1, 2)
    assert {item.batch for item in run.rounds} == set(BATCHES[:-1])
    assert all([block.target for block in item.blocks] == [0, 1] for item in run.rounds)
    assert all(len({block.process for block in item.blocks}) == 1 for item in run.rounds)
    times = {(b.process, item.pass_index, item.batch, b.target): b.at_s for item in study.rounds for b in item.blocks}
    for item in run.rounds:
        one, two = item.blocks
        assert (one.process, item.pass_index, item.batch, 0) in times
        assert (two.process, item.pass_index, 2 * item.batch, 1) in times


def test_the_export_holds_what_is_said_and_the_record() -> None:
    study = make_scaling_study(trace=(256, 4096))
    data = scaling_data(answer := scaling_answer(study))
    assert data["headline"] == headline(answer)
    assert data["several"][0]["strong"][0]["batch"] == 32
    assert data["several"][0]["traced"][0]["batch"] == 256
    assert data["several"][0]["verdict"]["verdict"] == data["verdict"]["verdict"] == "crossover"
    assert ScalingStudy.from_data(data["record"]) == study
    text = SCALING.text(study, answer, None)  # type: ignore[arg-type]
    assert "strong efficiency" in text
    assert "32 per replica" not in text
    several = make_scaling_study(targets=(ONE, TWO, FOUR))
    assert scaling_data(scaling_answer(several))["verdict"]["fastest"]


def test_every_framework_with_several_devices_has_its_sentence_on_accumulation() -> None:
    assert set(ACCUMULATING) == {name for name, known in FRAMEWORKS.items() if known.several is not None}
