"""The cards of NVML that a framework sees, and their numbers there."""

import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from core.machine.environment import capture_environment
from core.machine.meter import Card, Meter
from core.machine.nvml import Listed, Nvml, Place, visible_cards
from core.worker.process import worker_environment
from core.workload.spec import Target
from simulated.fake_nvml import FakeCard, FakeNvml

A, B, C = "GPU-aa11", "GPU-aa22", "GPU-cc33"
THREE = (Listed(A), Listed(B), Listed(C))
SLICED = (Listed(A), Listed(B, True, ("MIG-1111", "MIG-2222")))


@pytest.mark.parametrize(
    ("wanted", "cards", "broken_by"),
    [
        (None, [0, 1, 2], None),
        ("0,1,2", [0, 1, 2], None),
        ("2", [2], None),
        ("2,0", [2, 0], None),
        (" 1 , 2", [1, 2], None),
        ("1gpu", [1], None),
        ("", [], ""),
        ("-1", [], "-1"),
        ("none", [], "none"),
        ("0,-1,1", [0], "-1"),
        ("1,7,0", [1], "7"),
        ("0,0", [], "0"),
        ("0,GPU-cc", [0], "GPU-cc"),
        (B, [1], None),
        (f"{C},{A}", [2, 0], None),
        ("GPU-cc", [2], None),
        ("GPU-aa", [], "GPU-aa"),  # names two
        ("GPU-", [], "GPU-"),
        ("GPU-cc,GPU-dd,GPU-aa1", [2], "GPU-dd"),
        ("GPU-cc,0", [2], "0"),
        ("MIG-1", [], "MIG-1"),
    ],
)
def test_cuda_visible_devices(wanted: str | None, cards: list[int], broken_by: str | None) -> None:
    found = visible_cards(THREE, {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted})
    assert ([place.card for place in found.places], found.broken_by, found.known) == (cards, broken_by, True)


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        (None, Place(1, 0)),  # no whole card beside a slice
        ("0", Place(0)),
        ("1", Place(1, 0)),
        ("MIG-22", Place(1, 1)),
        ("MIG-22,MIG-11", Place(1, 1)),  # a process gets one slice
        (f"{A},MIG-22", Place(1, 1)),
    ],
)
def test_a_process_sees_one_slice_and_no_card_beside_it(wanted: str | None, place: Place) -> None:
    assert visible_cards(SLICED, {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}).places == (place,)


def test_a_card_that_waits_to_be_sliced_cannot_be_seen() -> None:
    assert visible_cards((Listed(A, mig=True), Listed(B)), {}).places == (Place(1),)


@pytest.mark.parametrize(
    ("cards", "env", "known"),
    [
        (THREE, {}, True),
        (THREE, {"CUDA_DEVICE_ORDER": ""}, True),
        (THREE, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, True),
        (THREE, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, False),
        (THREE, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"}, False),
        (THREE, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": B}, True),
        (THREE[:1], {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, True),
    ],
)
def test_the_order_is_known_by_bus_or_by_uuid(cards: tuple[Listed, ...], env: dict[str, str], known: bool) -> None:
    assert visible_cards(cards, env).known is known


def test_workers_count_gpus_as_nvml_does_unless_the_user_chose_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    assert worker_environment(Target(device="gpu:1"))["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert worker_environment(Target(device="gpu:1"))["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


Machine = Callable[..., FakeNvml]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that simulates a machine's cards and the variables set there."""

    def make(*cards: FakeCard, **env: str) -> FakeNvml:
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        driver = FakeNvml(list(cards))
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        return driver

    return make


def two() -> tuple[FakeCard, FakeCard]:
    return FakeCard("T4", uuid=A, pids=(7,), reasons=64), FakeCard("A100", uuid=B, capability=(8, 0), pids=(8,))


def test_a_target_names_the_card_that_the_framework_calls_so(machine: Machine) -> None:
    machine(*two(), CUDA_VISIBLE_DEVICES="1")
    with closing(Nvml()) as nvml:
        assert [gpu.name for gpu in nvml.gpus()] == ["A100"]
        assert [handle.card.name for handle in nvml.handles_of(Target(device="gpu:0"))] == ["A100"]
        assert nvml.handles_of(Target(device="gpu:1")) == ()
        assert nvml.handles_of(Target(device="gpu:0+1")) == ()
        assert nvml.handles_of(Target()) == ()
        assert len(nvml.listed) == 2
    assert [gpu.compute_capability for gpu in capture_environment().gpus] == ["8.0"]


def test_only_the_measured_cards_are_asked_what_they_do(machine: Machine) -> None:
    machine(*two())
    with closing(Nvml()) as nvml:
        chosen = (["gpu:0"], ["gpu:0", "gpu:1"], ["cpu"], ["gpu:0+1"])
        first, both, none, several = (nvml.measured(map(Target.parse, names)) for names in chosen)
        assert [nvml.computing_pids(handles) for handles in (first, both, none)] == [{7}, {7, 8}, set()]
        assert several == both == nvml.handles_of(Target(device="gpu:0+1"))
        reasons = [Card(nvml.library, handle).sample(0.0).reasons for handle in both]
        assert reasons == [("hw_thermal",), ()]


def test_the_cards_of_a_target_are_metered_as_one_or_not_at_all(machine: Machine) -> None:
    machine(*two())
    with closing(Meter()) as meter:
        assert [bool(meter.refused(device)) for device in ("gpu:0", "gpu:0+1", "gpu:0+2")] == [False, False, True]


def test_where_the_order_is_not_known_no_card_is_taken_for_a_target(machine: Machine) -> None:
    machine(*two(), CUDA_DEVICE_ORDER="FASTEST_FIRST")
    with closing(Nvml()) as nvml:
        assert nvml.handles_of(Target(device="gpu:0")) == ()
        assert nvml.computing_pids(nvml.measured([Target(device="gpu:0")])) == {7, 8}  # it may be any of them


def test_of_a_slice_memory_and_processes_are_its_own_and_the_clocks_its_cards(machine: Machine) -> None:
    part = FakeCard("A100 MIG 1g.5gb", uuid="MIG-1", memory=5 * 10**9, pids=(5,), power_limit_mw=None)
    machine(FakeCard("A100", uuid=A, capability=(8, 0), memory=40 * 10**9, pids=(5, 6), reasons=64, mig=(part,)))
    with closing(Nvml()) as nvml:
        (gpu,) = nvml.gpus()
        measured = nvml.measured([Target(device="gpu:0")])
        assert nvml.computing_pids(measured) == {5}
        card = Card(nvml.library, measured[0])
        assert (card.sample(0.0).reasons, card.divided) == (("hw_thermal",), True)
    assert (gpu.name, gpu.memory_bytes, gpu.mig) == ("A100 MIG 1g.5gb", 5 * 10**9, True)
    assert (gpu.compute_capability, gpu.power_limit_w) == ("8.0", 70.0)


def test_cards_of_one_kind_are_told_apart_without_giving_their_uuids_away(machine: Machine) -> None:
    machine(FakeCard(uuid=A), FakeCard(uuid=B))
    found = capture_environment()
    assert len({gpu.uuid_hash for gpu in found.gpus}) == 2
    assert A not in found.model_dump_json()
