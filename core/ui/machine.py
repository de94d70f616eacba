"""The devices of this machine as the form offers them, and what to do where there is no GPU."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from core.evidence import Environment
from core.machine import environment
from core.spec import Target
from core.ui import evidence
from core.ui.tables import environment_table
from core.ui.words import NO_GPU_ADVICE, plain


@dataclass(frozen=True)
class Machine:
    """``names`` are devices in the notation of targets; ``titles`` say what each is; ``threads``: usable cores."""

    names: tuple[str, ...]
    titles: dict[str, str]
    threads: int
    advice: tuple[str, ...]

    @property
    def has_gpu(self) -> bool:
        return any(name.startswith("gpu:") for name in self.names)

    def title(self, name: str) -> str:
        return self.titles.get(name, name)

    def default_targets(self) -> tuple[Target, Target]:
        """CPU against the first GPU; without one, one thread against all; with one core, graph against XLA."""
        if self.has_gpu:
            return Target(), Target(device="gpu:0")
        if self.threads > 1:
            return Target(threads=1), Target(threads=self.threads)
        return Target(), Target(execution="xla")


@st.cache_resource(ttl=60, max_entries=1, show_spinner=False)
def devices() -> Machine:
    """The devices of this machine, looked up at most once a minute."""
    here = environment.list_devices()
    titles = {"cpu": "CPU"} | {f"gpu:{index}": f"gpu:{index} · {gpu.name}" for index, gpu in enumerate(here.gpus)}
    return Machine(tuple(titles), titles, here.usable_cores or 1, here.advice)


def gpu_notice(machine: Machine) -> None:
    """Say plainly where no GPU was found or can be used, what is compared instead, and what can be done."""
    if machine.has_gpu:
        for line in machine.advice:
            st.warning(plain(line), icon=":material/memory_alt:")
        return
    instead = f"one CPU thread against {machine.threads}" if machine.threads > 1 else "graph against XLA execution"
    st.info(f"No GPU was found on this machine, so the proposal is {plain(instead)}.", icon=":material/memory_alt:")
    with st.expander("What can be done about the missing GPU"):
        for line in machine.advice:
            st.markdown(f"- {plain(line)}")
        st.caption("In general")
        for advice in NO_GPU_ADVICE:
            st.markdown(f"- {advice}")


def same_machine(first: Environment | None, second: Environment | None) -> bool | None:
    """Whether two environments name the same machine; None where one is not known."""
    if first is None or second is None:
        return None
    return (first.hostname_hash, first.cpu) == (second.hostname_hash, second.cpu)


@st.cache_resource(ttl=30, max_entries=1, show_spinner=False)
def now() -> Environment:
    """This machine at this time."""
    return environment.capture_environment()


def environment_view() -> None:
    """This machine, as a table."""
    evidence.table(environment_table(now()), "machine", {"fact": "Fact", "value": "Value"})
