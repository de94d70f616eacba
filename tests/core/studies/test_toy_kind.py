"""The study that docs/adding_a_study.md adds: in a copy of the checkout with its files, and nothing else changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "adding_a_study.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
COPIED = ("core", "pages", "simulated", "docs", ".streamlit", "app.py", "dashboard.py", "pyproject.toml")
TESTS = ("conftest.py", "support", "test_structure.py", "pages/conftest.py", "pages/startup_kind.py")
LEAST = {"test_structure.py": 10, "core/studies/test_records.py": 10, "core/studies/test_faults.py": 12,
         "core/studies/test_targets.py": 2, "pages/startup_kind.py": 9}  # fmt: skip
"""The number of tests by file that hold for the kind in the copy, at least."""
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


def test_it_is_short_and_stands_in_places_of_its_own() -> None:
    lines = [line for source in FILES.values() for line in source.splitlines() if line.strip()]
    assert len(lines) <= 115
    places = {"core/studies/startup", "core/ui/startup", "core/cli", "pages", "simulated/kinds"}
    assert {name.rpartition("/")[0] for name in FILES} == places


def test_its_command_is_listed_and_explains_itself(checkout: Path) -> None:
    assert "startup" in python(checkout, "-m", "core", "--help")
    assert "until it is" in " ".join(python(checkout, "-m", "core", "startup", "--help").split())


def test_structure_tests_of_all_kinds_menu_page_history_chip_and_share_hold_for_it(checkout: Path) -> None:
    tests = [f"tests/{name}" for name in ("test_structure.py", *SHARED, "pages/startup_kind.py")]
    chosen = "startup or test_structure or every_kind"
    words = python(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", *tests, "-k", chosen, "-rA")
    passed = re.findall(r"^PASSED tests/(\S+?)(?:::|$)", words, re.MULTILINE)
    assert {name: passed.count(name) >= least for name, least in LEAST.items()} == dict.fromkeys(LEAST, True)
