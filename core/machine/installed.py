"""Detection of usable frameworks and their versions, without importing one.

A framework may live in an environment of its own, whose interpreter the variable ``BREAKEVEN_PYTHON_<FRAMEWORK>`` names
(a target may name another): a process there looks up the packages without importing any.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.base.frameworks import FRAMEWORKS
from core.base.text import shown
from core.workload.names import all_of

VARIABLE = "BREAKEVEN_PYTHON_{framework}"
NEEDED = {
    "numpy": "numpy", "packaging": "packaging", "protobuf": "google.protobuf", "psutil": "psutil",
    "pydantic": "pydantic",
}  # fmt: skip
"""Packages a worker imports beside the framework, and the module of each."""
OLDEST = (3, 11)
ASK_S = 30.0


COMPILER_PACKAGE = "jax-cuda12-pjrt"
NO_COMPILER = (
    "To ask XLA's CUDA compiler about a GPU that is not here, run “pip install -r requirements-compile.txt” (JAX and "
    "its compiler, 460 MB, Linux on x86-64; no driver, no GPU)."
)


def found(modules: Mapping[str, str]) -> dict[str, str]:
    """Return versions of the packages whose module can be imported here; "" for a module without package metadata."""
    versions = {}
    for name, module in modules.items():
        try:
            if importlib.util.find_spec(module) is None:
                continue
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
        except ImportError:
            continue
    return versions


QUESTION = f"""
import importlib.metadata, importlib.util, json, sys
from collections.abc import Mapping
{inspect.getsource(found)}
print(json.dumps([sys.version_info[:3], found(json.loads(sys.argv[1]))]))
"""
"""The same function, run in another interpreter, which does not know this program."""


@dataclass(frozen=True)
class Found:
    """Python version of an interpreter and versions of its packages. ``why_not``: the reason it could not be asked."""

    python: tuple[int, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def python_of(framework: str) -> str | None:
    """Return the interpreter that the environment names for a framework; None: this program's own."""
    return os.environ.get(VARIABLE.format(framework=framework.upper())) or None


def why_missing(framework: str, python: str | None = None) -> str | None:
    """Return a sentence on what to install, or None if a worker can be started.

    ``python``: the interpreter that a target names, instead of the environment's.
    """
    known, python = FRAMEWORKS[framework], python or python_of(framework)
    there = _look(framework, python)
    if there.why_not:
        return f"{shown(python or '')}, the interpreter for {known.title}, {there.why_not}."
    if python is not None and there.python < OLDEST:
        needs = f"Breakeven's workers need {_dotted(OLDEST)} or newer"
        return f"{shown(python)} is Python {_dotted(there.python)}; {needs}."
    missing = [name for name in _modules(framework) if name not in there.packages]
    if not missing:
        return None
    if python is None:
        return f"{known.title} is not installed; run “pip install -r {known.requirements}”."
    return f"{shown(python)} lacks {all_of(missing)}; run “{shown(python)} -m pip install {' '.join(missing)}”."


def versions(framework: str) -> dict[str, str]:
    """Return the versions of the framework's packages, as far as they are installed."""
    there = _look(framework, python_of(framework)).packages
    return {name: there[name] for name in FRAMEWORKS[framework].packages if there.get(name)}


def environment_words(framework: str, python: str) -> str:
    """Return the versions of an interpreter and of the framework's packages there: “Python 3.12.3 with jax 0.9 …”."""
    there = _look(framework, python)
    packages = [f"{name} {there.packages.get(name, '')}".rstrip() for name in FRAMEWORKS[framework].packages]
    return f"Python {_dotted(there.python)} with {all_of(packages)}"


def _modules(framework: str) -> dict[str, str]:
    return {name: name for name in FRAMEWORKS[framework].packages} | NEEDED


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _look(framework: str, python: str | None) -> Found:
    modules = _modules(framework)
    if python is None:
        return Found(sys.version_info[:3], found(modules))
    file = Path(python)
    if not file.is_file():
        why_not = "is a folder; name the program in it, such as bin/python" if file.is_dir() else "does not exist"
        return Found(why_not=why_not)
    if not os.access(file, os.X_OK):
        return Found(why_not="cannot be executed")
    answer = _ask(python, json.dumps(modules))
    if set(modules) - set(answer.packages):
        _ask.cache_clear()  # missing packages may be installed later
    return answer


@functools.lru_cache(maxsize=16)
def _ask(python: str, modules: str) -> Found:
    command = (python, "-c", QUESTION, modules)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, stdin=subprocess.DEVNULL)
        version, packages = json.loads(done.stdout)
        return Found(tuple(version), packages)
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return Found(why_not="is no Python that answers")
