import sys

import pytest

from core.frameworks import FRAMEWORKS
from core.machine import installed


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow, Keras and torch are here."""
    monkeypatch.setattr(installed, "_is_here", lambda package: package in ("tensorflow", "keras", "torch"))
    for name in FRAMEWORKS:
        monkeypatch.delenv(f"BREAKEVEN_PYTHON_{name.upper()}", raising=False)


@pytest.mark.usefixtures("only")
def test_what_is_missing_comes_with_the_command_that_installs_it() -> None:
    found = {name: why for name in FRAMEWORKS if (why := installed.why_missing(name)) is not None}
    assert found == {"jax": "JAX is not installed here; run “pip install -r requirements-jax.txt”."}


@pytest.mark.usefixtures("only")
def test_an_interpreter_of_its_own_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_PYTHON_JAX", "/opt/jax/bin/python")
    assert installed.why_missing("jax") is None


def test_packages_are_found_without_being_imported() -> None:
    before = set(sys.modules)
    assert installed._is_here("pytest")
    assert not installed._is_here("no-such-package-anywhere")
    for name in FRAMEWORKS:
        installed.why_missing(name)
    assert not {"tensorflow", "jax", "torch", "keras"} & (set(sys.modules) - before)
