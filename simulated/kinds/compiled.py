"""Compile studies; nothing of them runs on a GPU."""

from collections import Counter
from typing import Any

from core.studies.compiled.run import CompileSearch
from simulated import compilers
from simulated.compilers import CompilerMachine, make_compile_study
from simulated.kinds import Case, Scenario


def _kept(record: Any, answered: Counter[str], _: int) -> bool:
    return (0 if record is None else len(record.rounds)) >= answered["compile"]


CASE = Case(
    study=make_compile_study,
    on_gpu=lambda: CompileSearch(compilers.plan()),
    gpus=(),
    machine=lambda seed: CompilerMachine(seed),
    plan=lambda: CompileSearch(compilers.plan()),
    kept=_kept,
    scenario=lambda: Scenario(
        kind="compiled", machine=CompilerMachine(), plan=CompileSearch(compilers.plan()), budget_s=120.0, size=1
    ),
)
