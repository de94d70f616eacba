"""Compile studies: what is compiled, kept and used again, and what follows from a program by hand."""

import dataclasses
import threading

import pytest
from pydantic import ValidationError

from core.base.schema import UserError
from core.hardware.catalogue import catalogue
from core.hardware.chip import GENERATIONS, chip, generation_of
from core.machine.installed import NO_COMPILER
from core.studies.compiled.answer import (
    BOOST,
    L2_GAIN,
    WINOGRAD,
    between,
    compile_answer,
    counts,
    floor_of,
    tensorflow_range,
)
from core.studies.compiled.export import between_sentence, compile_data, compile_text, fit_sentence, lines
from core.studies.compiled.figures import kernels_figure
from core.studies.compiled.record import CompilePlan
from core.studies.compiled.run import CompileSearch, run_compile_study
from core.studies.compiled.shipped import FOLDER, compiled_steps, path_of, shipped
from core.studies.compiled.traced import (
    agreement_sentence,
    expected_kernels,
    traced_data,
    traced_steps,
)
from core.studies.registry import sweep_example
from core.studies.runner import Cancelled
from core.traces.program import CompiledKernel
from core.workload.spec import MAX_BATCH, Target, Workload
from simulated.compilers import CARDS, COMPILE_S, FIXED_BYTES, SAMPLE_BYTES, CompilerMachine, make_compile_study, plan
from simulated.hardware import round_card
from simulated.tools import tools_for

NVIDIA = [spec for spec in catalogue().values() if spec.vendor == "NVIDIA"]


def test_every_card_is_compiled_at_every_size_and_the_answer_has_the_known_numbers() -> None:
    study = make_compile_study()
    assert (study.label, study.status) == ("compiled", "finished")
    assert [(step.card, step.batch) for step in study.steps] == [(0, 1), (0, 64), (1, 1), (1, 64)]
    answer = compile_answer(study)
    step = answer.at(64)[0]
    assert (step.program.launches, counts(step.program)) == (7, {"product": 2, "fusion": 5, "copy": 2})
    assert step.program.memory_bytes == FIXED_BYTES + 64 * SAMPLE_BYTES
    assert tensorflow_range(step) == (4, 9)
    assert step.flops == 2 * 64 * (784 * 128 + 1280)


def test_the_largest_batch_follows_from_memory() -> None:
    card = compile_answer(make_compile_study()).cards[0]
    assert card.largest == min(MAX_BATCH, int((16e9 - FIXED_BYTES) / SAMPLE_BYTES))
    small = catalogue()["T4"].model_copy(update={"name": "Small", "memory_gb": 0.5})
    card = compile_answer(make_compile_study(cards=(small,))).cards[0]
    assert card.largest == int((5e8 - FIXED_BYTES) / SAMPLE_BYTES)
    assert "49.8 thousand" in fit_sentence(card)
    assert compile_answer(make_compile_study(batches=(8,))).cards[0].largest is None


def test_between_compiled_sizes_it_is_interpolated_and_said() -> None:
    card = compile_answer(make_compile_study(batches=(1, 65))).cards[0]
    point = between(card, 33)
    assert point is not None
    assert point.memory_bytes == FIXED_BYTES + 33 * SAMPLE_BYTES
    assert card.steps[0].floor_ms <= point.floor_ms <= card.steps[1].floor_ms
    assert "interpolated between 1 and 65: 5 to 7 kernels" in between_sentence(card, 33)
    assert [between_sentence(card, batch) for batch in (1, 65, 128)] == ["", "", ""]


@pytest.mark.parametrize(
    ("facts", "floor_us", "limit"),
    [
        ({"bytes": 8}, 1.0, "shortest kernels"),
        ({"bytes": 10**9}, (10**9 - 2**20 + 2**20 / L2_GAIN) / 1e6, "memory"),
        ({"bytes": 2**20}, 1.0, "shortest kernels"),
        ({"bytes": 8, "flops": 10**10}, 1000 / BOOST, "products"),
        ({"bytes": 8, "flops": 10**10, "winograd": True}, 1000 / BOOST / WINOGRAD, "products"),
        ({"bytes": 8, "flops": 10**10, "half": True}, 250 / BOOST, "products"),
    ],
)
def test_the_floor_of_a_kernel_by_hand(facts: dict, floor_us: float, limit: str) -> None:
    card = round_card(l2_mb=1.0, tf32_tflops=None, half_tflops=40.0)  # 10 TFLOP/s, 1 TB/s
    time = floor_of(CompiledKernel(kind="product", **facts), card)
    assert (time.floor_us, time.limit) == (pytest.approx(floor_us), limit)


@pytest.mark.parametrize(
    ("which", "kernels", "compute_ms"),
    [
        ("gpu", {1: 6, 8192: 4}, {1: 0.0100, 8192: 0.0749}),
        ("gpu-training", {1: 16, 8192: 27}, {1: 0.0309, 8192: 0.232}),
    ],
)
def test_a_real_card_ran_the_kernels_that_are_compiled_without_it(
    which: str, kernels: dict[int, int], compute_ms: dict[int, float]
) -> None:
    """The traces of the shipped sweeps are those of an H200; batch sizes that are not compiled are left out."""
    steps = tuple(traced_steps(sweep_example(which), "H200"))
    assert {step.compiled.batch: step.kernels for step in steps} == kernels
    assert {step.compiled.batch: step.compute_ms for step in steps} == pytest.approx(compute_ms, rel=0.01)
    assert all(step.within and step.above_floor for step in steps)
    assert [traced_data(step)["within"] for step in steps] == [True, True]
    assert not tuple(traced_steps(sweep_example(which), "MI300X")), "no compiler of AMD's was asked"
    slow = dataclasses.replace(steps[0], kernels=99.0, compute_ms=1e-6)
    assert "Of 2 traced steps 1 ran" in agreement_sentence((slow, steps[1]))
    assert not slow.above_floor


def test_kernels_are_comparable_where_xla_compiles_the_step_for_a_gpu() -> None:
    workload, gpu = Workload(network="784-512-512-10"), Target(device="gpu:0")
    step = compiled_steps(workload, gpu, "NVIDIA H200")[0]
    launches = step.program.launches
    assert expected_kernels(step, gpu) == tensorflow_range(step) == (16, 27)
    assert expected_kernels(step, gpu.model_copy(update={"framework": "jax"})) == (21, 25)
    assert launches == 23
    for changes in ({"execution": "graph"}, {"device": "cpu"}, {"precision": "float32_strict"}):
        assert compiled_steps(workload, gpu.model_copy(update=changes), "H200") == ()
    assert compiled_steps(workload, gpu, "Tesla K80") == ()
    assert compiled_steps(Workload(network="784-16-10"), gpu, "H200") == ()


def test_what_ships_covers_nvidias_cards_and_five_presets() -> None:
    studies = [study for path in FOLDER.iterdir() if (study := shipped(path)) is not None]
    whole = [study for study in studies if len(study.plan.cards) == len(NVIDIA)]
    assert len({study.plan.workload.network.name for study in whole}) >= 6
    for study in studies:
        assert path_of(study.plan.workload, study.plan.precision).is_file()
        assert {card.name for card in study.plan.cards} <= {card.name for card in NVIDIA}
        assert all(step.program is not None for step in study.steps)
        assert compile_answer(study).cards
        assert (study.label, study.environment) == ("compiled", None)


def test_programs_of_earlier_studies_are_not_compiled_again() -> None:
    first, machine = make_compile_study(), CompilerMachine()
    study = run_compile_study(tools_for(machine), CompileSearch(plan(batches=(1, 8, 64)), (first,)))
    assert machine.compiled == [8, 8]
    assert [step.batch for step in study.steps] == [1, 8, 64] * 2
    machine = CompilerMachine()
    run_compile_study(tools_for(machine), CompileSearch(plan(precision="mixed_float16"), (first,)))
    assert machine.compiled == [1, 1, 64, 64], "another precision is another program"


@pytest.mark.parametrize("lost", [False, True])
def test_a_program_that_fails_costs_itself_alone(lost: bool) -> None:
    machine = CompilerMachine(faults={64: "out_of_memory"}, lost=lost)
    study = make_compile_study(machine)
    assert [step.outcome for step in study.steps] == ["measured", "out_of_memory"] * 2
    assert machine.open_workers == 0
    assert "Planted" in compile_text(study, compile_answer(study))


def test_a_budget_ends_it_and_a_cancel_keeps_what_there_is() -> None:
    study = make_compile_study(budget_s=5.0)
    assert [w.code for w in study.warnings] == ["compile_late"]
    cancel = threading.Event()
    machine = CompilerMachine()
    tools = tools_for(machine, lambda at: cancel.set() if at.cells_done == 2 else None, cancel=cancel)
    study = run_compile_study(tools, CompileSearch(plan()))
    assert (study.status, len(study.steps)) == ("cancelled", 2)
    assert machine.clock.now_s() <= 4.0 + 2 * COMPILE_S
    cancel.set()
    with pytest.raises(Cancelled):
        run_compile_study(tools_for(CompilerMachine(), cancel=cancel), CompileSearch(plan()))


def test_cards_that_cannot_be_compiled_for_are_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match="not NVIDIA"):
        chip(catalogue()["MI300X"])
    with pytest.raises(UserError, match="multiprocessors"):
        chip(catalogue()["T4"].model_copy(update={"multiprocessors": None}))
    with pytest.raises(ValidationError, match="once"):
        plan(cards=(catalogue()["T4"],) * 2)
    with pytest.raises(ValidationError, match="float32_strict"):
        plan(precision="float32_strict")


def test_every_nvidia_card_of_the_catalogue_has_a_description() -> None:
    assert len(NVIDIA) > 30
    for spec in NVIDIA:
        assert f"core_count: {spec.multiprocessors}\n" in chip(spec)
    assert {generation_of(spec).capability for spec in NVIDIA} == {each.capability for each in GENERATIONS.values()}


def test_the_words_the_data_and_the_picture() -> None:
    study = make_compile_study()
    answer = compile_answer(study)
    words = lines(answer)
    assert words[0].startswith(f"7 kernels per step on {CARDS[0]} at batch 64, at least 2.64 MB, no faster than ")
    data = compile_data(study, answer)
    step = data["cards"][1]["steps"][0]
    assert (data["label"], step["kernels"], step["memory_bytes"]) == ("compiled", 5, FIXED_BYTES + SAMPLE_BYTES)
    assert step["floor_ms"] > 0
    figure = kernels_figure(study, answer.at(64)[0])
    shown = {value for bar in figure.data for value in bar.x}
    assert max(shown) == pytest.approx(max(time.total_us for time in answer.at(64)[0].kernels))


def test_without_the_compiler_one_sentence_says_how_to_get_it() -> None:
    machine = CompilerMachine()
    machine.answer = lambda *_: _refuse()  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"requirements-compile\.txt"):
        make_compile_study(machine)
    assert machine.open_workers == 0


def _refuse():
    from core.worker.protocol import CellFailed

    raise CellFailed("error", NO_COMPILER)


def test_a_plan_survives_its_json() -> None:
    assert CompilePlan.model_validate_json(plan().model_dump_json()) == plan()
