"""The installed frameworks, from package metadata and from other interpreters; none is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.frameworks import FRAMEWORKS
from core.machine import installed
from core.machine.installed import python_of, versions, why_missing

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FRAMEWORKS:
        monkeypatch.delenv(f"BREAKEVEN_PYTHON_{name.upper()}", raising=False)
    installed._ask.cache_clear()


def interpreter(folder: Path, answer: str) -> str:
    """Write a program that answers like a Python with those packages."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\necho '{answer}'\n")
    file.chmod(0o755)
    return str(file)


def test_tensorflow_is_here_with_its_versions_and_nothing_was_imported() -> None:
    code = (
        "import sys; from core.machine.installed import *\n"
        "print(why_missing('tensorflow'), sorted(versions('tensorflow')), {'tensorflow', 'keras'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "None ['keras', 'tensorflow'] set()"


def test_what_is_missing_here_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = installed.importlib.util.find_spec
    monkeypatch.setattr(
        installed.importlib.util, "find_spec", lambda name: None if name.startswith("jax") else real(name)
    )
    assert "requirements-jax.txt" in why_missing("jax")
    assert set(versions("jax")) == {"keras"}
    assert why_missing("tensorflow") is None


@pytest.mark.skipif(os.name != "posix", reason="the interpreters here are shell scripts")
def test_an_interpreter_that_is_named_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_it = '{"jax": "0.9", "jaxlib": "0.9", "keras": "3", "numpy": "2", "packaging": "1", "protobuf": "7", '
    whole = interpreter(tmp_path, f'[[3, 12], {all_of_it}"psutil": "7", "pydantic": "2"}}]')
    assert why_missing("jax", whole) is None
    monkeypatch.setenv("BREAKEVEN_PYTHON_JAX", whole)
    assert python_of("jax") == whole
    assert python_of("torch") is None
    assert versions("jax") == {"jax": "0.9", "jaxlib": "0.9", "keras": "3"}
    lacking = interpreter(tmp_path, '[[3, 12], {"jax": "0.9", "jaxlib": "0.9", "keras": "3", "numpy": "2"}]')
    installed._ask.cache_clear()
    assert f"{lacking} -m pip install" in why_missing("jax")
    interpreter(tmp_path, f'[[3, 12], {all_of_it}"psutil": "7", "pydantic": "2"}}]')
    assert why_missing("jax") is None  # a missing package is looked up again
    interpreter(tmp_path, "[[3, 9], {}]")
    installed._ask.cache_clear()
    assert "Python 3.9" in why_missing("jax")


@pytest.mark.skipif(os.name != "posix", reason="files have no mark that lets them be executed")
def test_an_interpreter_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "notes.txt"
    plain.write_text("nothing")
    assert "does not exist" in str(why_missing("jax", str(tmp_path / "none")))
    assert "cannot be executed" in str(why_missing("jax", str(plain)))
    assert "no Python" in str(why_missing("jax", interpreter(tmp_path, "hello")))
