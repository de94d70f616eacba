"""A GPU that is listed but unusable, or usable with a catch: one sentence each, with what to do."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.base.evidence import Gpu
from core.base.schema import UserError
from core.machine import gpu_notes as facts_module
from core.machine.environment import Devices, list_devices, refuse_unusable, with_notes
from core.machine.gpu_notes import (
    SENTENCES,
    Build,
    Card,
    GpuFacts,
    GpuNote,
    Library,
    cuda_libraries,
    gpu_facts,
    gpu_notes,
    tensorflow_build,
)
from core.machine.nvml import Listed, Visible, visible_cards
from core.workload.spec import Target
from simulated.fake_nvml import FakeCard
from tests.support.gpus import LIBRARIES, WHEEL, plug_in

GB = 10**9
T4 = Card(Gpu(name="NVIDIA T4", driver="550.1", compute_capability="7.5", memory_bytes=16 * GB, mig=False), 15 * GB, 0)


def machine(*cards: Card, **changes: object) -> GpuFacts:
    """Return a machine with one T4 that is ready, with changes."""
    cards = cards or (T4,)
    listed = tuple(Listed(f"GPU-{index}") for index in range(len(cards)))
    usual = {"cuda_driver": (12, 4), "build": WHEEL, "libraries": LIBRARIES, "visible": visible_cards(listed, {})}
    facts = GpuFacts("Linux", "x86_64", cards, listed)
    return dataclasses.replace(facts, **{**usual, **changes})


def card(capability: str = "7.5", name: str = "Card", **changes: object) -> Card:
    gpu = T4.gpu.model_copy(update={"compute_capability": capability, "name": name} | changes)
    return dataclasses.replace(T4, gpu=gpu)


def library(name: str, **changes: object) -> tuple[Library, ...]:
    return tuple(dataclasses.replace(one, **changes) if name in one.package else one for one in LIBRARIES)


def hidden(cards: int, value: str | None = None, order: str | None = None, shown: tuple[Card, ...] = ()) -> GpuFacts:
    listed = tuple(Listed(f"GPU-{index}{index}") for index in range(cards))
    env = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    visible = visible_cards(listed, {name: text for name, text in env.items() if text is not None})
    assert len(visible.places) == len(shown)
    return dataclasses.replace(machine(), cards=shown, listed=listed, visible=visible, hidden_by=value, order=order)


MISSING = {"version": None, "fits": False}
CASES: dict[str, tuple[GpuFacts, str, str, str | None]] = {
    # state: facts, severity, part of the sentence, target
    "driver_silent": (GpuFacts("Linux", "", problem="Driver/library version mismatch"), "unusable", "restart", None),
    "driver_old": (machine(cuda_driver=(11, 4)), "unusable", "knows CUDA 11.4 at most", None),
    "windows": (machine(system="Windows"), "unusable", "WSL2", None),
    "cpu_build_arm": (machine(machine="aarch64", build=Build(False)), "unusable", "aarch64", None),
    "cpu_build": (machine(build=Build(False)), "unusable", "uninstall it", None),
    "libraries_wrong": (machine(libraries=library("cudnn", version="8.9", fits=False)), "unusable", "is 8.9", None),
    "libraries_missing": (machine(libraries=library("cudnn", **MISSING)), "unusable", "nvidia-cudnn-cu12", None),
    "libraries_of_system": (machine(libraries=library("cudnn", **MISSING, elsewhere=True)), "fact", "--probe", None),
    "no_cupti": (machine(libraries=library("cupti", **MISSING)), "limited", "traces cannot show", None),
    "no_nvcc": (machine(libraries=library("nvcc", **MISSING)), "limited", "XLA", None),
    "mig_empty": (
        machine(cards=(), listed=(Listed("GPU-0", mig=True),), visible=Visible(())), "unusable", "mig -cgi", None,
    ),
    "hidden": (hidden(2, "-1"), "unusable", "hides every GPU", None),
    "hidden_from_here": (hidden(2, "0,7", shown=(T4,)), "limited", "“7” names no GPU", None),
    "hidden_some": (hidden(2, "1", shown=(T4,)), "fact", "leaves 1 of 2 GPUs: gpu:0 is NVIDIA T4", None),
    "order_unknown": (hidden(2, order="FASTEST_FIRST", shown=(T4, T4)), "limited", "unset it", None),
    "kinds_differ": (machine(T4, card(name="NVIDIA L4")), "fact", "gpu:1 is NVIDIA L4", None),
    "too_new": (machine(T4, card("12.0", T4.gpu.name)), "unusable", "CUDA_ERROR_INVALID_PTX", "gpu:1"),
    "no_code": (machine(card("5.2")), "unusable", "begins at 6.0", "gpu:0"),
    "prohibited": (machine(dataclasses.replace(T4, mode=2)), "unusable", "nvidia-smi -c 0", "gpu:0"),
    "exclusive_taken": (machine(dataclasses.replace(T4, mode=3, taken=True)), "unusable", "end it", "gpu:0"),
    "exclusive": (machine(dataclasses.replace(T4, mode=3)), "limited", "cannot be compared", "gpu:0"),
    "memory_taken": (machine(dataclasses.replace(T4, free_bytes=GB // 2)), "unusable", "500 MB of 16 GB", "gpu:0"),
    "memory_short": (machine(dataclasses.replace(T4, free_bytes=8 * GB)), "limited", "8 GB of 16 GB", "gpu:0"),
    "mig": (machine(card(mig=True)), "limited", "slice", "gpu:0"),
}  # fmt: skip


def test_every_state_is_tested() -> None:
    assert set(CASES) == set(SENTENCES)


def test_of_a_good_card_nothing_is_said() -> None:
    assert gpu_notes(machine()) == gpu_notes(machine(T4, T4)) == gpu_notes(GpuFacts("Linux", "x86_64")) == ()


@pytest.mark.parametrize("code", CASES)
def test_each_state_gives_one_sentence_with_what_to_do(code: str) -> None:
    facts, severity, part, target = CASES[code]
    (note,) = gpu_notes(facts)
    assert (note.code, note.severity, note.target) == (code, severity, target)
    assert part in note.sentence
    assert note.sentence.endswith(".")
    assert ". " not in note.sentence
    assert "{" not in note.sentence


@pytest.mark.parametrize(
    ("built", "capability", "code"),
    [
        (WHEEL.capabilities, "6.1", None),
        (WHEEL.capabilities, "7.5", None),
        (WHEEL.capabilities, "8.6", None),
        (WHEEL.capabilities, "9.0", None),
        (WHEEL.capabilities, "10.0", "too_new"),
        (WHEEL.capabilities, "12.1", "too_new"),
        (WHEEL.capabilities, "3.7", "no_code"),
        (("sm_80", "compute_90"), "7.5", "no_code"),
        (("sm_86",), "8.0", "no_code"),
        (("sm_89", "sm_100a", "sm_120"), "12.0", None),
        (("7.5", "12.0"), "12.0", None),
        (("native",), "12.0", None),  # nothing known, so no note
        ((), "12.0", None),
    ],
)
def test_code_for_a_capability(built: tuple[str, ...], capability: str, code: str | None) -> None:
    found = gpu_notes(machine(card(capability), build=Build(True, 12, built)))
    assert [note.code for note in found] == ([code] if code else [])


def test_what_forbids_comes_first_and_where_the_order_is_unknown_no_card_is_refused() -> None:
    several = machine(card("12.0"), libraries=library("cupti", **MISSING), hidden_by="0")
    assert [note.severity for note in gpu_notes(several)] == ["unusable", "limited"]
    unknown = hidden(2, order="FASTEST_FIRST", shown=(T4, card("12.0", "RTX 5090")))
    assert {(note.severity, note.target) for note in gpu_notes(unknown)} == {("limited", None)}


def devices(notes: tuple[GpuNote, ...], gpus: int = 2, **changes: object) -> Devices:
    here = Devices(cpu="a", gpus=(T4.gpu,) * gpus, tensorflow="2.21.0", usable_cores=4)
    return with_notes(here.model_copy(update=changes), notes)


def test_the_first_gpu_that_can_be_used_is_proposed() -> None:
    first_bad = GpuNote(code="too_new", severity="unusable", sentence="No.", target="gpu:0")
    assert devices(()).default_targets() == (Target(), Target(device="gpu:0"))
    assert devices((first_bad,)).default_targets() == (Target(), Target(device="gpu:1"))
    assert devices((first_bad,)).advice == ("No.",)
    assert (devices(()).gpus_at_once, devices((first_bad,)).gpus_at_once) == ("gpu:0+1", None)
    assert (devices((), gpus=1).gpus_at_once, devices((), gpus=0).gpus_at_once) == (None, None)
    for none in (
        devices((first_bad,), gpus=1), devices((first_bad.model_copy(update={"target": None}),)),
        devices((), tensorflow=None), devices((), gpus=0),
    ):  # fmt: skip
        assert none.default_targets() == (Target(threads=1), Target(threads=4))
        assert "imported" in none.advice[-1]
        assert "not installed" in none.advice[0] or none.tensorflow


def test_a_target_that_is_not_here_is_named() -> None:
    assert devices(()).why_unusable(Target(device="gpu:1")) is None
    assert devices(()).why_unusable(Target()) is None
    assert "no gpu:2 here" in (devices(()).why_unusable(Target(device="gpu:0+2")) or "")
    said = devices(()).why_unusable(Target(device="gpu:2"))
    assert said is not None
    assert "gpu:0 to gpu:1" in said
    assert (
        devices((), gpus=0).why_unusable(Target(device="gpu:0")) is None
    )  # NVML may be missing; the worker reports it


def test_facts_are_read_from_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, FakeCard(pids=(7,), memory_used=2**30))
    found = gpu_facts()
    assert (found.cuda_driver, found.build, len(found.listed)) == ((12, 8), WHEEL, 1)
    (only,) = found.cards
    assert (only.free_bytes, only.mode, only.taken) == (15 * 2**30, 0, True)
    assert list_devices().notes == ()


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"capability": (12, 0)}, "too_new"),
        ({"compute_mode": 2}, "prohibited"),
        ({"memory_used": 16 * 2**30 - 10**8}, "memory_taken"),
    ],
)
def test_a_card_that_cannot_be_used_is_refused_with_its_sentence(
    monkeypatch: pytest.MonkeyPatch, state: dict[str, Any], code: str
) -> None:
    plug_in(monkeypatch, FakeCard(), FakeCard(**state))
    here = list_devices()
    assert [note.code for note in here.notes] == [code]
    assert here.default_targets() == (Target(), Target(device="gpu:0"))
    with pytest.raises(UserError) as refused:
        refuse_unusable((Target(), Target(device="gpu:1")))
    assert str(refused.value) == here.notes[0].sentence
    assert refuse_unusable((Target(), Target(device="gpu:0"))) == ()


def test_what_only_limits_is_said_of_the_gpus_that_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = plug_in(monkeypatch, FakeCard(memory_used=8 * 2**30), FakeCard())
    assert ["nvidia-smi" in line for line in refuse_unusable((Target(device="gpu:0"),))] == [True]
    assert refuse_unusable((Target(device="gpu:1"),)) == ()
    driver.asked.clear()
    assert refuse_unusable((Target(),)) == ()
    assert driver.asked == []  # a CPU needs no answers
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(UserError, match="hides every GPU"):
        refuse_unusable((Target(device="gpu:0"),))


def test_the_installed_tensorflow_says_what_it_was_built_for() -> None:
    """Check a build with CUDA: code for a T4, none yet for Blackwell. This fails once a newer build has it."""
    found = tensorflow_build()
    assert found is not None
    if found.cuda:
        codes = {c: [note.code for note in gpu_notes(machine(card(c), build=found))] for c in ("7.5", "9.0", "12.0")}
        assert codes == {"7.5": [], "9.0": [], "12.0": ["too_new"]}


def test_a_build_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tensorflow"
    (package / "python" / "platform").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert tensorflow_build() is None
    file = package / "python" / "platform" / "build_info.py"
    file.write_text(
        "import collections\nbuild_info = collections.OrderedDict([('cuda_version', '12.5.1'), "
        "('is_cuda_build', True), ('cuda_compute_capabilities', ['sm_60', 'compute_90'])])\n"
    )
    assert tensorflow_build() == Build(True, 12, ("sm_60", "compute_90"))
    file.write_text("import collections\nbuild_info = collections.OrderedDict([('is_cuda_build', False)])\n")
    assert tensorflow_build() == Build(False)
    for broken in ("build_info = open('/etc/passwd')", "(", "build_info = 3"):
        file.write_text(broken)
        assert tensorflow_build() is None


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a made-up package: its version, what it requires, the files that it has."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "system"))
    monkeypatch.setattr(facts_module, "SYSTEM_FOLDERS", ())
    monkeypatch.setattr(facts_module, "LOADER_CACHE", str(tmp_path / "ld.so.cache"))
    monkeypatch.setattr(facts_module.shutil, "which", lambda _: None)

    def install(name: str, version: str, files: tuple[str, ...] = (), requires: tuple[str, ...] = ()) -> None:
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        for file in files:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).touch()

    asked = ("cudnn-cu12<10.0,>=9.3.0.75", "cuda-cupti-cu12<13.0,>=12.5.82", "cuda-nvcc-cu12<13.0,>=12.5.82")
    requires = (*(f'nvidia-{one}; extra == "and-cuda"' for one in asked), "numpy>=2", "nvidia-cublas-cu12>=12")
    install("tensorflow", "2.21.0", requires=requires)
    return install


def test_libraries_are_those_that_tensorflow_asks_for(wheels: Callable[..., None], tmp_path: Path) -> None:
    found = {one.package: one for one in cuda_libraries()}
    assert [(one.version, one.fits, one.elsewhere) for one in found.values()] == [(None, False, False)] * 3
    assert found["nvidia-cudnn-cu12"].wanted == "<10.0,>=9.3.0.75"
    wheels("nvidia-cudnn-cu12", "9.5.1", ("nvidia/cudnn/lib/libcudnn.so.9",))
    wheels("nvidia-cuda-cupti-cu12", "12.9.1", ("nvidia/cuda_cupti/lib/libcupti.so.12",))
    wheels("nvidia-cuda-nvcc-cu12", "11.8", ("nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",))
    found = {one.package: one for one in cuda_libraries()}
    assert [one.fits for one in found.values()] == [True, True, False]
    (tmp_path / "nvidia/cuda_cupti/lib/libcupti.so.12").unlink()
    codes = [note.code for note in gpu_notes(machine(libraries=tuple(cuda_libraries())))]
    assert codes == ["no_cupti", "no_nvcc"]


def test_a_library_of_the_system_counts_in_the_version_that_is_asked_for(
    wheels: Callable[..., None], tmp_path: Path
) -> None:
    assert wheels
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "libcudnn.so.8").touch()
    assert [one.elsewhere for one in cuda_libraries()] == [False, False, False]
    (tmp_path / "system" / "libcudnn.so.9").touch()
    assert [one.elsewhere for one in cuda_libraries()] == [True, False, False]
    (tmp_path / "ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0libcupti.so.12\0/opt/cuda/libcupti.so.12\0libcudart")
    assert [one.elsewhere for one in cuda_libraries()] == [True, True, False]
