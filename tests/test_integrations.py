"""The GitHub action: its script with a substitute for Breakeven, and the action's inputs to it."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ACTION = Path(__file__).parents[1] / "integrations" / "check"
SETTINGS = {
    "CHECK_BASELINE": "base line.json", "CHECK_MODEL": "net.models:make", "CHECK_AGAINST": "main; echo no",
    "CHECK_BUDGET": "60",
}  # fmt: skip
STAND_IN = """#!{python}
import os, sys
print("\\n".join(sys.argv[1:]), file=open(os.environ["SEEN"], "w"))
print(os.environ.get("SAYS", ""), end="")
print("Measuring.", "The last sentence.", sep="\\n", file=sys.stderr)
sys.exit(int(os.environ["ENDS"]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Write a program that notes its arguments, prints given text and ends with a given status."""
    path = tmp_path / "stand-in"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def run(tmp_path: Path, program: Path, status: int, says: str = "", **settings: str) -> tuple[int, str, str, list[str]]:
    """Exit status, summary, outputs, and the arguments that the program got."""
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "SEEN")}
    for file in files.values():
        file.write_text("")
    environment = os.environ | SETTINGS | {name: str(file) for name, file in files.items()}
    environment |= {"CHECK_COMMAND": str(program), "SAYS": says, "ENDS": str(status)} | settings
    done = subprocess.run(
        ["bash", str(ACTION / "check.sh")], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "Measuring." in done.stderr, "the log shows progress"
    summary, output, seen = (file.read_text() for file in files.values())
    return done.returncode, summary, output, seen.splitlines()


def test_arguments_are_those_of_the_settings_and_nothing_is_run_of_them(tmp_path: Path, program: Path) -> None:
    *_, seen = run(tmp_path, program, 0, "### Not slower: yes.", CHECK_BATCHES="1,64", CHECK_TARGET="")
    assert seen == [
        "check", "base line.json", "--model", "net.models:make", "--format", "md", "--against=main; echo no",
        "--budget=60", "--batches=1,64",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "says", "settings", "ends", "verdict"),
    [
        (0, "### Not slower: a", {}, 0, "unchanged"), (0, "### Faster: a", {}, 0, "faster"),
        (1, "### Slower: a", {}, 1, "slower"), (3, "### Not clear: a", {}, 0, "inconclusive"),
        (3, "### Not clear: a", {"CHECK_FAIL_WHEN_NOT_CLEAR": "true"}, 3, "inconclusive"),
    ],
)  # fmt: skip
def test_the_summary_and_the_exit_status(
    tmp_path: Path, program: Path, status: int, says: str, settings: dict[str, str], ends: int, verdict: str
) -> None:
    got, summary, output, _ = run(tmp_path, program, status, f"{says}\n\n| batch |", **settings)
    assert got == ends
    assert summary == f"## Breakeven check\n\n{says}\n\n| batch |\n"
    assert output == f"verdict={verdict}\n"


def test_where_nothing_was_measured_the_summary_says_why(tmp_path: Path, program: Path) -> None:
    got, summary, output, _ = run(tmp_path, program, 2)
    assert got == 2
    assert summary == "## Breakeven check\n\n**Breakeven check:** The last sentence.\n"
    assert output == "verdict=\n"


def test_a_command_of_several_words(tmp_path: Path, program: Path) -> None:
    got, *_ = run(tmp_path, program, 0, "### Not slower: a", CHECK_COMMAND=f"{sys.executable} {program}")
    assert got == 0


def test_the_action_hands_over_every_setting_that_the_script_reads() -> None:
    action, script = ((ACTION / name).read_text() for name in ("action.yml", "check.sh"))
    handed = dict(re.findall(r"^ {8}(CHECK_\w+): \$\{\{ inputs\.([\w-]+) \}\}$", action, re.MULTILINE))
    assert set(handed) == set(re.findall(r"CHECK_[A-Z_]+", script))
    inputs = action.partition("inputs:\n")[2].partition("\noutputs:")[0]
    assert {*handed.values(), "working-directory"} == set(re.findall(r"^ {2}([\w-]+):$", inputs, re.MULTILINE))
    run_line = action.partition("run: ")[2]
    assert "${{" not in run_line, "no setting becomes part of a script"
