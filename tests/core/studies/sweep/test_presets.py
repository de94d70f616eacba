"""Presets of targets by a machine's devices, and the next target worth adding."""

import pytest

from core.base.evidence import MAX_TARGETS
from core.base.schema import UserError
from core.networks.families import network_from_name
from core.rounds.plan import SweepPlan
from core.studies.sweep.presets import PRESETS, Here, another, preset_targets
from core.workload.spec import Target, Workload

AMPERE, TURING, UNKNOWN = Here(8, "gpu:1", True), Here(8, "gpu:0", False), Here(8, "gpu:0")
NO_GPU = Here(8)
MACHINES = (AMPERE, TURING, UNKNOWN, NO_GPU, Here(1), Here(2), Here(3), Here(4096))


@pytest.mark.parametrize(
    ("name", "here", "targets"),
    [
        ("machine", NO_GPU, ["cpu,threads=1", "cpu,threads=4", "cpu,threads=8", "cpu,threads=8,execution=xla"]),
        ("machine", Here(2), ["cpu,threads=1", "cpu,threads=2", "cpu,threads=2,execution=xla"]),
        ("machine", Here(1), ["cpu", "cpu,execution=xla"]),
        ("precisions", AMPERE, ["gpu:1", "gpu:1,precision=float32_strict", "gpu:1,precision=mixed_float16",
                                "gpu:1,precision=mixed_bfloat16"]),
        ("precisions", TURING, ["gpu:0", "gpu:0,precision=mixed_float16"]),
        ("precisions", UNKNOWN, ["gpu:0", "gpu:0,precision=float32_strict", "gpu:0,precision=mixed_float16"]),
        ("frameworks", NO_GPU, ["cpu", "cpu,framework=jax", "cpu,framework=torch"]),
        ("frameworks", TURING, ["gpu:0", "gpu:0,framework=jax", "gpu:0,framework=torch"]),
        ("formats", TURING, ["cpu", "cpu,precision=int8", "cpu,framework=litert",
                             "cpu,framework=litert,precision=int8"]),
    ],
)  # fmt: skip
def test_a_preset_is_made_from_what_the_machine_has(name: str, here: Here, targets: list[str]) -> None:
    assert [str(target) for target in preset_targets(name, here)] == targets


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("here", MACHINES, ids=str)
def test_every_preset_of_a_machine_is_a_plan(name: str, here: Here) -> None:
    workload = Workload(network=network_from_name("784-128-10"), mode=PRESETS[name].mode or "train")
    targets = PRESETS[name].make(here)
    assert bool(targets) is (here.gpu is not None or name != "precisions")
    assert not targets or SweepPlan(workload=workload, targets=targets, batches=(1, 2)).targets == targets


def test_a_preset_that_the_machine_lacks_is_refused_with_what_it_needs() -> None:
    with pytest.raises(UserError, match="needs a GPU"):
        preset_targets("precisions", NO_GPU)


@pytest.mark.parametrize("here", MACHINES, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_what_is_added_differs_from_all_that_is_there(here: Here, known: bool) -> None:
    workload = Workload(network=network_from_name("784-128-10"))
    targets = [Target()]
    while len(targets) < MAX_TARGETS:
        targets.append(another(targets, here, workload if known else None))
    assert len(set(targets)) == MAX_TARGETS
    assert not known or SweepPlan(workload=workload, targets=tuple(targets), batches=(1, 2))
