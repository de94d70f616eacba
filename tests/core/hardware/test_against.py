"""One card beside a measured run: the CPU it is compared with, its settings, and the base of its speed-up."""

import pytest

from core.hardware.catalogue import catalogue
from core.hardware.compare import against, batches_between, card_target, compared_with
from core.hardware.crossing import cross, speed_up
from core.hardware.curve import Recording, card_curve, unnamed_conditions
from core.hardware.host import USUAL, Modelling
from core.rounds.answer.analyse import analyse
from core.workload.spec import Pipeline, Target
from simulated.hosts import cells_of, make_costs
from simulated.runs import make_run, planned

CARD = catalogue()["V100-16GB-PCIe"]
COSTS = make_costs(step_us=100.0, op_us=0.5)
RUN = make_run(3)
ANSWER = analyse(RUN)
GPU = Target(device="gpu:0")


def test_the_card_meets_the_faster_cpu_first_and_its_speed_up_has_the_runs_own_base() -> None:
    index = compared_with(RUN, ANSWER)
    assert index == 1  # twice as fast at large batches
    found = against(RUN, ANSWER, index, CARD, COSTS)
    unnamed = unnamed_conditions(RUN.plan)
    curve = card_curve(CARD, Modelling(RUN.plan.workload, GPU, COSTS, unnamed), batches_between(ANSWER, 1))
    assert found.curve == curve
    assert found.crossovers == (cross(RUN, ANSWER, curve, 1), cross(RUN, ANSWER, curve, 0))
    assert found.crossover.cpu == RUN.names[1]
    assert {one.label for one in (found, *found.crossovers, *found.speed_ups)} == {"modelled"}
    assert [s.batch for s in found.speed_ups] == list(batches_between(ANSWER, 1))
    first = ANSWER.cell(0, 1024)
    second = ANSWER.cell(1, 1024)
    assert found.at_end == speed_up(ANSWER, found.curve, 1024, 1)
    assert found.speed_ups[-1].ratio / found.at_end.ratio == pytest.approx(first.step_ms / second.step_ms)


def test_only_the_device_differs_from_the_cpu_target_and_a_real_gpu_in_the_run_is_no_cpu() -> None:
    cpu = Target(threads=3, precision="mixed_bfloat16", execution="xla", steps_per_execution=4)
    assert str(card_target(cpu)) == "gpu:0,precision=mixed_bfloat16,execution=xla,steps_per_execution=4"
    run = planned(RUN, targets=(Target(), GPU))
    assert compared_with(run, ANSWER) == 0
    assert [one.cpu for one in against(run, ANSWER, 0, CARD, COSTS).crossovers] == [run.names[0]]


def test_data_that_are_not_resident_cross_the_link_and_recordings_replace_the_model() -> None:
    fed = against(planned(RUN, pipeline=Pipeline(kind="host")), ANSWER, 1, CARD, COSTS)
    resident = against(RUN, ANSWER, 1, CARD, COSTS)
    assert (fed.how.conditions.fed, resident.how.conditions.fed) == (True, False)
    assert fed.curve.known[-1].step_ms > resident.curve.known[-1].step_ms
    cells = tuple(cell for cell in ANSWER.cells if cell.target == 0 and cell.batch in (64, 128))
    recording = Recording(CARD.name, "a-run", "A run", RUN.plan.workload, GPU, USUAL, cells, "recorded")
    found = against(RUN, ANSWER, 1, CARD, COSTS, (recording,))
    labels = {point.batch: point.label for point in found.curve.known}
    assert (labels[32], labels[64], labels[128], labels[256]) == ("modelled", "recorded", "recorded", "modelled")


def test_what_cannot_be_compared_is_refused_or_withheld_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="Only points"):
        compared_with(RUN.model_copy(update={"plan": None}), ANSWER)
    gpus = planned(RUN, targets=(GPU, Target(device="gpu:1")))
    with pytest.raises(ValueError, match="No CPU target"):
        compared_with(gpus, ANSWER)
    run = make_run(3, batches=(8,))
    found = against(run, cells_of(run), 1, CARD, COSTS)
    assert found.crossover.kind == "withheld"
    assert "fewer than two" in found.crossover.sentence
    assert found.at_end is None
