"""Error rate and findings of ``check``: simulated, or between two commits of a small model, measured here.

    python -m benchmarks.check simulated [--checks 1000]
    python -m benchmarks.check real [--times 5] [--budget 120]

Simulated: 60 s of virtual time each, with the noise of simulated/simulation.py. Real: a temporary repository of a
model of three layers; in turn against a commit that is the same but for a comment, and one whose second layer is 592
units wide in place of 512, which is 10 % more parameters. The exit status is 0 if no alarm was false.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from core.__main__ import main as command
from core.studies.check.answer import check_answer
from simulated.checkouts import git, repository
from simulated.checks import check_machine, check_plan, checked, stored_code

ENTRY = "net.models:make"
MODEL = """
import keras


def make():
    return keras.Sequential(
        [
            keras.Input((256,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense({width}, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
"""
CASES: tuple[tuple[str, Mapping[int, float] | float, tuple[int, ...]], ...] = (
    ("equal", 1.0, (1, 256)),
    ("10 % slower", 1.1, (1, 256)),
    ("10 % slower at one batch size", {1: 1.1}, (1, 256)),
    ("3 % slower", 1.03, (1, 256)),
    ("5 % slower", 1.05, (1, 256)),
    ("equal, one batch size", 1.0, (256,)),
    ("10 % slower, one batch size", 1.1, (256,)),
    ("equal, four batch sizes", 1.0, (1, 16, 64, 256)),
    ("10 % slower, four batch sizes", 1.1, (1, 16, 64, 256)),
)


def simulated(checks: int) -> int:
    """Print the share of each verdict; return the number of cases with more than 5 % false alarms."""
    wrong = 0
    for name, ratio, batches in CASES:
        plan = check_plan(batches=batches)
        verdicts = Counter(check_answer(checked(check_machine(ratio, seed=s), plan)).verdict for s in range(checks))
        shares = ", ".join(f"{verdict} {100 * count / checks:.1f} %" for verdict, count in verdicts.most_common())
        print(f"{name}: {shares}", flush=True)
        wrong += ratio == 1.0 and verdicts["slower"] > 0.05 * checks
    return wrong


def real(times: int, budget_s: float) -> int:
    """Print each check; return the number of checks between equal commits that reported a slowdown."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        base = MODEL.format(width=512)
        folder = repository(Path(scratch) / "project", base, f"{base}# the same\n", MODEL.format(width=592))
        (Path(scratch) / "run.json").write_text(stored_code(ENTRY, "/elsewhere").to_json())
        with contextlib.chdir(folder):
            for number in range(times):
                for name, commit, against in (("the same", "HEAD~1", "HEAD~2"), ("wider", "HEAD", "HEAD~2")):
                    slower = _reports_slowdown(folder, f"{name} {number + 1}", commit, against, budget_s)
                    wrong += slower and name == "the same"
    return wrong


def _reports_slowdown(folder: Path, name: str, commit: str, against: str, budget_s: float) -> bool:
    """Run one check and return True if it reported a slowdown."""
    out = folder.parent / "check.json"
    other = folder.parent / "checked-out"
    out.unlink(missing_ok=True)
    against = git(folder, "rev-parse", against)
    git(folder, "worktree", "add", "--detach", str(other), commit)
    with contextlib.chdir(other), contextlib.redirect_stdout(io.StringIO()):
        status = command(
            ["check", "../run.json", "--model", ENTRY, "--against", against, "--batches", "64,512",
             "--budget", str(budget_s), "--out", str(out)]
        )  # fmt: skip
    git(folder, "worktree", "remove", "--force", str(other))
    if not out.exists():  # nothing was measured, or the check was stopped
        sys.exit(2)
    data = json.loads(out.read_text())
    each = "; ".join(f"batch {b['batch']}: {b['ratio']} ({b['low']} to {b['high']})" for b in data["batches"])
    print(f"{name}: {data['verdict']}, {data['ratio']} ({data['low']} to {data['high']}); {each}", flush=True)
    return status == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["simulated", "real"])
    parser.add_argument("--checks", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--budget", type=float, default=120.0)
    options = parser.parse_args()
    return min(1, simulated(options.checks) if options.how == "simulated" else real(options.times, options.budget))


if __name__ == "__main__":
    sys.exit(main())
