"""The tests that ``pytest`` runs, and those that it leaves out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.conftest import COLLECTED, FRAMEWORKS

ROOT = Path(__file__).parents[1]


def collected(*arguments: str) -> str:
    """Return pytest's output when it collects, in a process that an import of a framework ends."""
    code = (
        f"import sys\nfor name in {FRAMEWORKS}: sys.modules[name] = None\n"
        "import pytest\nraise SystemExit(pytest.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "--collect-only", "-q", "-n0", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "BREAKEVEN_TEST_POSTGRES_URL"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def everything(request: pytest.FixtureRequest) -> str:
    """Return what this process has collected; if that was not all, what another one does."""
    here = request.config.stash[COLLECTED]
    return "\n".join(here) if len(here) > 5000 else collected("-m", "")


def test_nothing_imports_a_framework_while_pytest_collects(everything: str) -> None:
    assert "\n!" not in everything
    assert "test_tensorflow_training.py::" in everything
    assert "test_work_against_tensorflow.py::" in everything


def test_no_name_of_a_test_changes_from_one_process_to_the_next(everything: str) -> None:
    """Compare names, since the processes of pytest-xdist must collect the same."""
    assert not re.findall(r".*0x[0-9a-f]{6,}.*", everything)
    names = re.findall(r"^tests/.*::.*$", everything, re.M)
    assert len(set(names)) == len(names) > 1000


@pytest.mark.processes
def test_what_plain_pytest_leaves_out_is_said_with_the_command_that_runs_it() -> None:
    said = collected("tests/browser", "tests/core/store")
    assert "test_pages_drawn.py::" not in said
    assert re.search(
        r'Slow tests: \d+ browser, \d+ statistical, \d+ processes\. With them: pytest -m "" .*tests/browser', said
    )
    assert re.search(r"On PostgreSQL: \d+\. .* BREAKEVEN_TEST_POSTGRES_URL", said)
    assert "[sqlite]" in said
    assert "[postgresql]" not in said


def test_only_what_was_asked_for_counts_as_left_out() -> None:
    assert "Slow tests: 1 browser." in collected("tests/browser", "-k", "cold_deep_link")


@pytest.mark.processes
def test_examples_are_the_same_in_every_run_but_those_of_ci() -> None:
    assert settings.default.derandomize
    assert not settings.get_profile("random").derandomize
    step = next(line for line in (ROOT / ".ci/run").read_text().splitlines() if "--hypothesis-profile=random" in line)
    assert '-m "hypothesis and fast"' in step
    assert "--hypothesis-seed=$seed" in step
    assert "test_imports.py::test_any_bytes_are_a_run_or_a_sentence" in collected(
        "-m", "hypothesis and fast", "tests/core/rounds/show"
    )


def test_everything_leaves_only_the_database_out(everything: str) -> None:
    assert "test_pages_drawn.py::" in everything
    assert "Slow tests" not in everything
