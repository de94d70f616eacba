"""The answer of a diagnosis: judgements from intervals, the order of remedies, the verdict's sentence, warnings."""

import json
import re

import pytest

from core.base.evidence import Interference, ProcessUse
from core.base.schema import UserError
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.diagnosis.answer import ORDER, Finding, best_arms, diagnose, judge
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.remedies import REMEDIES
from core.studies.experiment.effects import Effect
from core.studies.experiment.record import Experiment
from core.workload.spec import Pipeline, Target, Workload
from simulated.diagnoses import HELPING, make_diagnosis
from simulated.runs import make_run, planned
from tests.support.traced import gpu_cell, with_traces

BEHIND, AHEAD = 8, 256  # batches at which the second target of make_run is behind, and ahead (they cross near 43)


def run_of(first: Target | None = None, second: Target | None = None, **changes: object) -> Run:
    """Return a run in which the second target, by default a GPU, is behind at small batches."""
    targets = (first or Target(), second or Target(device="gpu:0", execution="graph"))
    run = make_run(**changes)  # type: ignore[arg-type]
    plan = SweepPlan(workload=Workload(network="784-128-10"), targets=targets, batches=run.batches)
    return run.model_copy(update={"plan": plan, "target_names": plan.target_names})


RUN = run_of()


def effect(low: float | None, high: float | None) -> Effect:
    return Effect(1, 2.0, None, None, 1.0, low, high, 18, 3)


def finding(found: tuple[Finding, ...], family: str) -> Finding:
    return next(f for f in found if f.family == family)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (None, None, "unclear"),
        (1.2, None, "unclear"),
        (1.031, 1.4, "helps"),
        (1.03, 1.4, "unclear"),
        (1.01, 1.02, "no effect"),
        (0.99, 1.01, "no effect"),
        (0.945, 1.059, "no effect"),
        (0.94, 1.0, "unclear"),
        (1.0, 1.07, "unclear"),
        (0.7, 1.5, "unclear"),
        (0.5, 0.97, "hurts"),
        (0.96, 0.9705, "hurts"),
        (0.96, 0.972, "no effect"),
    ],
)
def test_judgements_follow_the_interval(low: float | None, high: float | None, expected: str) -> None:
    assert judge(effect(low, high)) == expected


def test_findings_are_ranked_by_judgement_then_gain() -> None:
    gains = HELPING | {"precision-float16": 3.0, "precision-bfloat16": 0.9, "xla": 0.5}
    found = diagnose(RUN, make_diagnosis(RUN, gains)).findings
    assert {f.family for f in found} == set(REMEDIES) - {"call", "pad", "relaxed"}
    places = [ORDER.index(f.judgement) for f in found]
    assert places == sorted(places)
    helping = [f for f in found if f.judgement == "helps"]
    assert [f.code for f in helping] == ["precision-float16", "steps-32"]
    assert helping[0].gain == pytest.approx(3.0, rel=0.02)
    assert helping[0].low < 3.0 < helping[0].high
    assert finding(found, "xla").judgement == "hurts"
    assert finding(found, "batch").judgement == "no effect"


def test_what_is_unclear_ranks_below_what_helps_however_large() -> None:
    """Make XLA seem five times faster, in the only two rounds that it has."""
    diagnosis = make_diagnosis(RUN, HELPING | {"xla": 5.0})
    index = diagnosis.experiment.index_of("xla")
    rounds = tuple(
        item.model_copy(update={"blocks": tuple(b for b in item.blocks if b.arm != index or item.index < 2)})
        for item in diagnosis.experiment.rounds
    )
    cut = diagnosis.model_copy(update={"experiment": diagnosis.experiment.model_copy(update={"rounds": rounds})})
    found = diagnose(RUN, cut).findings
    assert [(f.family, f.judgement) for f in found[:2]] == [("steps", "helps"), ("xla", "unclear")]
    assert found[1].gain == pytest.approx(5.0, rel=0.05)


def test_a_remedy_shows_its_best_arm_and_names_the_others() -> None:
    steps = finding(diagnose(RUN, make_diagnosis(RUN, HELPING)).findings, "steps")
    assert steps.code == "steps-32"
    assert steps.title.startswith("32 steps")
    within = r" \(\d\.\d\d to \d\.\d\d\)"
    said = rf"8 steps per execution: (1\.9|2\.0)\d×{within}; 2 steps per execution: 1\.[45]\d×{within}"
    assert re.fullmatch(said, steps.others)
    xla = finding(diagnose(RUN, make_diagnosis(RUN, HELPING)).findings, "xla")
    assert (xla.title, xla.others) == ("XLA", "")


def test_what_was_not_tried_says_why() -> None:
    found = diagnose(RUN, make_diagnosis(RUN, failed={"xla": "XLA ran out of memory."})).findings
    xla, threads = finding(found, "xla"), finding(found, "threads")
    assert (xla.judgement, xla.gain) == ("failed", None)
    assert "out of memory" in xla.evidence
    assert threads.judgement == "not tried"
    assert "choice of threads" in threads.evidence
    assert [f.judgement for f in found][-1] == "not tried"


def test_an_arm_without_a_round_is_not_tried() -> None:
    diagnosis = make_diagnosis(RUN, HELPING)
    index = diagnosis.experiment.index_of("xla")
    rounds = tuple(
        item.model_copy(update={"blocks": tuple(b for b in item.blocks if b.arm != index)})
        for item in diagnosis.experiment.rounds
    )
    cut = diagnosis.model_copy(update={"experiment": diagnosis.experiment.model_copy(update={"rounds": rounds})})
    xla = finding(diagnose(RUN, cut).findings, "xla")
    assert xla.judgement == "not tried"
    assert "budget ended first" in xla.evidence


def test_the_evidence_has_both_times() -> None:
    diagnosis = make_diagnosis(RUN, {"xla": 2.0, "batch-32": 1.6}, noise=0.0001)
    found = diagnose(RUN, diagnosis).findings
    # √(0.8² + (0.01·8)²) = 0.804 ms
    assert re.search(r"0\.804 ms.*0\.402 ms", finding(found, "xla").evidence)
    # 0.804 ms over 8; four times the step over 4 × 8 samples, 1.6 times faster
    assert re.search(r"100 µs.*62\.8 at 32\.", finding(found, "batch").evidence)
    assert "is fixed cost." in finding(found, "xla").evidence


def test_the_evidence_quotes_the_nearest_trace_of_the_target_that_is_to_be_trusted() -> None:
    """Trace parts of 61 % compute, 5 % copies in, 4 % input, 25 % launch, 2 % other."""
    all_compute = {"compute": 1.0}
    lost, slowed = gpu_cell(8, shares=all_compute, dropped_events=9), gpu_cell(16, shares=all_compute, ratio=1.5)
    run = with_traces(
        run_of(),
        gpu_cell(4),
        gpu_cell(512, shares=all_compute),
        gpu_cell(8, target=0, shares=all_compute),
        lost,
        slowed,
    )
    host = planned(run, pipeline=Pipeline(kind="host"))
    found = diagnose(run, make_diagnosis(host, HELPING)).findings
    for family, share in (("xla", 27), ("precision", 61), ("resident", 9)):
        assert f"trace {share} %" in finding(found, family).evidence


def test_best_arms_are_one_of_each_remedy_without_batches() -> None:
    diagnosis = make_diagnosis(RUN, HELPING | {"batch-32": 5.0, "precision-float16": 1.2})
    assert [diagnosis.experiment.arms[i].code for i in best_arms(diagnosis)] == ["steps-32", "xla", "precision-float16"]


def test_the_best_remedy_is_the_verdict() -> None:
    told = diagnose(RUN, make_diagnosis(RUN, HELPING))
    assert told.reason == "helps"
    assert re.fullmatch(
        r"32 steps per execution helps most: 2\.\d\d times faster at batch 8, "
        r"95 % interval 2\.\d\d to 2\.\d\d\.",
        told.sentence,
    )


def test_a_remedy_that_helps_but_does_not_win_says_so() -> None:
    losing = make_run(5, floors_ms=(0.3, 0.7))
    told = diagnose(RUN, make_diagnosis(RUN, HELPING, reruns={"steps-32": losing}))
    assert told.reason == "helps_but_behind"
    assert "Even so, CPU" in told.sentence
    winning = make_run(5, floors_ms=(0.3, 0.25))
    both = diagnose(RUN, make_diagnosis(RUN, HELPING, reruns={"steps-32": losing, "xla": winning}))
    assert both.reason == "helps", "one of the two wins"
    assert "Even so" not in both.sentence
    worse = make_run(5, slopes_ms=(0.01, 0.02))
    at_large = make_diagnosis(RUN, HELPING, batch=AHEAD, reruns={"steps-32": worse})
    assert diagnose(RUN, at_large).reason == "helps", "it was not behind there"


def test_the_crossover_is_told_before_and_with_the_remedy() -> None:
    winning = make_run(5, floors_ms=(0.3, 0.25))
    found = diagnose(RUN, make_diagnosis(RUN, HELPING, reruns={"steps-32": winning})).findings
    told = finding(found, "steps").crossover
    assert re.match(r"Before: GPU 0, graph is faster from batch \d+ \(\d+ to \d+\)\. With it: ", told)
    assert told.endswith("2 threads are faster at every batch size measured.")
    assert finding(found, "xla").crossover == "Not re-measured: the budget ended first."
    assert finding(found, "precision").crossover == "Not re-measured, since the step does not gain."
    assert finding(found, "batch").crossover == (
        "A larger batch moves along the curve; the crossover stays where it is."
    )
    empty = make_diagnosis(RUN, HELPING, reruns={"steps-32": winning.model_copy(update={"rounds": ()})})
    assert finding(diagnose(RUN, empty).findings, "steps").crossover.endswith("With it: nothing measured.")


def test_why_a_crossover_was_not_measured_anew() -> None:
    diagnosis = make_diagnosis(RUN, HELPING)
    same = "Not re-measured: with it both targets would be the same."
    diagnosis = diagnosis.model_copy(update={"skipped": diagnosis.skipped | {"steps-32": same}})
    assert finding(diagnose(RUN, diagnosis).findings, "steps").crossover == same


SWAPPED = run_of(Target(device="gpu:0"), Target(), floors_ms=(0.8, 0.3), slopes_ms=(0.01, 0.02))


@pytest.mark.parametrize(
    ("run", "target", "batch", "reason", "ending"),
    [
        (RUN, 1, BEHIND, "none_helps_behind", "for this model at batch 8, the CPU is the right device."),
        (SWAPPED, 0, BEHIND, "none_helps_behind", "for this model at batch 8, the CPU is the right device."),
        (SWAPPED, 1, AHEAD, "none_helps_behind", "for this model at batch 256, the GPU is the right device."),
        (run_of(Target(threads=1), Target(threads=2)), 1, BEHIND, "none_helps_behind",
         "for this model at batch 8, 1 thread is the right target."),
        (RUN, 1, AHEAD, "none_helps", "GPU 0, graph at batch 256 is as fast as these remedies can make it."),
    ],
)  # fmt: skip
def test_where_nothing_helps_the_right_target_is_named(run: Run, target: int, batch: int, reason: str, ending: str):
    told = diagnose(run, make_diagnosis(run, target=target, batch=batch))
    assert (told.reason, told.sentence) == (reason, f"None of these helps: {ending}")


def test_without_rounds_nothing_is_said() -> None:
    diagnosis = make_diagnosis(RUN)
    empty = diagnosis.model_copy(update={"experiment": diagnosis.experiment.model_copy(update={"rounds": ()})})
    told = diagnose(RUN, empty)
    assert told.reason == "failed"
    assert {f.judgement for f in told.findings} == {"not tried"}
    with pytest.raises(ValueError, match="no measured round"):
        diagnose(RUN.model_copy(update={"rounds": ()}), diagnosis)


def with_interference(diagnosis: Diagnosis, share: float, found: Interference) -> Diagnosis:
    """Return the diagnosis with that noise in a share of its rounds, evenly spread."""
    every = round(1 / share)
    rounds = tuple(
        item.model_copy(update={"interference": found}) if item.index % every == 0 else item
        for item in diagnosis.experiment.rounds
    )
    return diagnosis.model_copy(update={"experiment": diagnosis.experiment.model_copy(update={"rounds": rounds})})


def test_neighbours_while_measuring_are_told() -> None:
    calm = make_diagnosis(RUN, HELPING, rounds=10)
    busy = Interference(other_cpu_pct=90.0, steal_pct=9.0, busiest=(ProcessUse(name="backup", cpu_pct=80.0),))
    assert diagnose(RUN, calm).warnings == ()
    assert diagnose(RUN, with_interference(calm, 1 / 15, busy)).warnings == (), (
        "two of thirty rounds are an occasional stall"
    )
    told = {w.code: w.text for w in diagnose(RUN, with_interference(calm, 1 / 5, busy)).warnings}
    assert set(told) == {"neighbour", "steal"}
    assert re.search(r"backup.* 90 %.* 6 of 30", told["neighbour"])
    shared = diagnose(RUN, with_interference(calm, 1 / 5, Interference(gpu_shared_by=("train.py",)))).warnings
    assert [w.code for w in shared] == ["gpu_shared"]
    slow = diagnose(RUN, with_interference(calm, 1 / 5, Interference(throttled=True))).warnings
    assert [w.code for w in slow] == ["gpu_slowed"]


@pytest.mark.parametrize(("field", "value"), [("target", 6), ("batch", 0)])
def test_what_is_no_diagnosis_is_refused_with_a_sentence(field: str, value: int) -> None:
    data = json.loads(make_diagnosis(run_of()).to_json())
    with pytest.raises(UserError, match=rf"diagnosis .*: {field}.*\.$"):
        Diagnosis.from_json(json.dumps(data | {field: value}))
    with pytest.raises(UserError, match=r"experiment .*: .*arms"):
        Experiment.from_json(json.dumps(data["experiment"] | {"arms": []}))
