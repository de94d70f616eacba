"""The study that docs/adding_a_study.md adds: in a copy of the checkout with its files, and nothing else changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "adding_a_study.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
COPIED = ("core", "pages", "simulated", "docs", ".streamlit", "app.py", "dashboard.py", "pyproject.toml")
TESTS = ("conftest.py", "support", "test_structure.py", "pages/conftest.py", "pages/startup_kind.py")
SHARED = tuple(f"core/studies/test_{name}.py" for name in ("records", "targets", "faults"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout with the files of the document."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in (*COPIED, *(f"tests/{test}" for test in (*TESTS, *SHARED))):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        else:
            shutil.copy2(ROOT / name, copy / name)
    for name, source in FILES.items():
        assert not (copy / name).exists(), "a new kind changes no file"
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(source, encoding="utf-8")
    return copy


def python(folder: Path, *arguments: str) -> str:
    """Run Python in that folder; return its output after checking that it succeeded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def passed(folder: Path, *arguments: str) -> int:
    """Run tests of the copy; return the number that passed."""
    words = python(folder, "-m", "pytest", "-p", "no:cacheprovider", "-n0", *arguments)
    return int(re.findall(r"(\d+) passed", words)[-1])


def test_it_is_short_and_stands_in_places_of_its_own() -> None:
    lines = [line for source in FILES.values() for line in source.splitlines() if line.strip()]
    assert len(lines) <= 115
    places = {"core/studies/startup", "core/ui/startup", "core/cli", "pages", "simulated/kinds"}
    assert {name.rpartition("/")[0] for name in FILES} == places


def test_its_command_is_listed_and_explains_itself(checkout: Path) -> None:
    assert "startup" in python(checkout, "-m", "core", "--help")
    assert "how long it takes until it is ready" in " ".join(
        python(checkout, "-m", "core", "startup", "--help").split()
    )


def test_the_rules_of_structure_hold_for_it(checkout: Path) -> None:
    assert passed(checkout, "tests/test_structure.py") >= 10


def test_the_tests_of_all_kinds_hold_for_it(checkout: Path) -> None:
    files = [f"tests/{name}" for name in SHARED]
    assert passed(checkout, *files, "-k", "startup or every_kind_has or every_kind_that") >= 30


def test_menu_page_command_history_chip_and_share_have_it(checkout: Path) -> None:
    assert passed(checkout, "tests/pages/startup_kind.py") >= 9
