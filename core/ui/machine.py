"""The devices of this machine as the form offers them, and advice if there is no GPU."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.base.evidence import Environment, Gpu
from core.base.frameworks import FRAMEWORKS, Framework, device_kind
from core.base.text import clean
from core.machine import environment
from core.machine.gpu_notes import OF_USE, GpuNote
from core.machine.installed import why_missing
from core.studies.sweep.presets import Here, compared_targets
from core.ui.study_page import busy_sentence
from core.ui.words import NO_GPU_ADVICE, plain
from core.workload.execution import has_tf32
from core.workload.names import device_words
from core.workload.spec import Target


@dataclass(frozen=True)
class Machine:
    """Devices of this machine.

    ``names`` are in the notation of targets; ``titles`` describe each; ``threads``: usable cores. ``unusable`` are
    names known not to work; ``notes`` say why, and other facts about GPUs. ``gpus`` are in the order of their names.
    ``apple_gpu``: PyTorch has the device mps here.
    """

    names: tuple[str, ...]
    titles: dict[str, str]
    threads: int
    advice: tuple[str, ...]
    unusable: tuple[str, ...] = ()
    notes: tuple[GpuNote, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    apple_gpu: bool = False

    @property
    def usable_gpus(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name.startswith("gpu:") and name not in self.unusable)

    @property
    def has_gpu(self) -> bool:
        """True if any GPU can be measured, as far as known."""
        return bool(self.usable_gpus)

    def title(self, name: str) -> str:
        return self.titles.get(name, device_words(name))

    def has_tf32(self, name: str) -> bool | None:
        """Return whether float32 means TF32 on that device; None on the CPU, or if unknown."""
        return has_tf32(name, self.gpus)

    def default_targets(self) -> tuple[Target, Target]:
        return environment.default_targets(self.usable_gpus, self.threads)

    def compared_targets(self) -> tuple[Target, ...]:
        """Return the targets that a sweep compares unless somebody chooses."""
        return compared_targets(self.default_targets(), self.threads)

    @property
    def facts(self) -> Here:
        """Facts from which presets of targets are made."""
        return Here.of(self.threads, self.usable_gpus, self.gpus)

    def reached_by(self, framework: Framework) -> tuple[str, ...]:
        """Return the devices of this machine that a framework can use."""
        names = (*self.names, *(["mps"] if self.apple_gpu else []))
        return tuple(name for name in names if device_kind(name) in framework.devices)


def devices() -> Machine:
    """Return the devices of this machine, cached for a minute."""
    return _devices(busy_sentence() is not None)


@st.cache_resource(ttl=60, max_entries=2, show_spinner=False)
def _devices(measuring: bool) -> Machine:
    """Look up the devices; during a measurement leave out notes on GPU use, which is its own workers'."""
    here = environment.list_devices()
    if measuring:
        here = environment.with_notes(here, tuple(note for note in here.notes if note.code not in OF_USE))
    gpus = {f"gpu:{index}": gpu.name for index, gpu in enumerate(here.gpus)}
    titles = {"cpu": "CPU"} | {name: f"{device_words(name)} · {card}" for name, card in gpus.items()}
    unusable = tuple(name for name in gpus if name not in here.usable_gpus)
    titles |= {name: f"{titles[name]} (cannot be used)" for name in unusable}
    apple = (platform.system(), platform.machine()) == ("Darwin", "arm64")
    return Machine(tuple(titles), titles, here.usable_cores or 1, here.advice, unusable, here.notes, here.gpus, apple)


def choose_target(key: str, **look: Any) -> Target:
    """Draw the choice of a device, at first a GPU if one can be measured, and return a target there with defaults."""
    here = devices()
    device: str = st.selectbox(
        "Target", here.names, index=int(here.has_gpu), format_func=lambda name: clean(here.title(name)), key=key,
        persist_state="session", **look,
    )  # fmt: skip
    return Target(device=device)


@st.cache_resource(ttl=60, max_entries=1, show_spinner=False)
def missing_frameworks() -> dict[str, str]:
    """Return a sentence for each framework that cannot start here, with its installation; cached for a minute."""
    return {name: why for name in FRAMEWORKS if (why := why_missing(name)) is not None}


def gpu_notice(machine: Machine, instead: str = "") -> None:
    """Show a notice if no GPU was found or is usable, with what is proposed ``instead`` and advice."""
    for note in machine.notes:
        if note.severity == "fact":
            st.caption(f":material/memory_alt: {plain(note.sentence)}")
        else:
            st.warning(plain(note.sentence), icon=":material/memory_alt:")
    if machine.has_gpu:
        return
    shown = {note.sentence for note in machine.notes}
    there = bool(shown or machine.unusable)
    why = "No GPU of this machine can be used" if there else "No GPU was found on this machine"
    usual = f"one CPU thread against {machine.threads}" if machine.threads > 1 else "graph against XLA execution"
    st.info(f"{plain(why)}, so the proposal is {plain(instead or usual)}.", icon=":material/memory_alt:")
    with st.expander("What else can be done" if there else "What can be done about the missing GPU"):
        for line in machine.advice:
            if line not in shown:
                st.markdown(f"- {plain(line)}")
        if not there:
            st.caption("In general")
            for advice in NO_GPU_ADVICE:
                st.markdown(f"- {advice}")


@st.cache_resource(ttl=30, max_entries=1, show_spinner=False)
def now() -> Environment:
    """Return this machine's current environment, cached for 30 s."""
    return environment.capture_environment()
