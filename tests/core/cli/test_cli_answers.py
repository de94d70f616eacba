"""``devices``, ``verdict`` and ``report``: exit status, stdout, one sentence on stderr."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.evidence import Interference, Resources
from core.rounds.answer.analyse import analyse
from core.rounds.show.export import rounds_csv
from core.workload.spec import Target
from simulated.commands import Command, as_json, holds, refused
from simulated.runs import make_run

ROOT = Path(__file__).parents[3]
KEYS = [
    "verdict", "targets", "ahead", "crossovers", "lead", "reason", "claims", "machine", "warnings", "next_batch",
    "ran_as",
]  # fmt: skip


def test_verdict_prints_the_sentence_first_then_the_cells(cli: Command, run_file: Path) -> None:
    status, out, err = cli("verdict", run_file)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    verdict = analyse(make_run()).verdict
    assert lines[0] == verdict.sentence
    assert lines[2].split()[:3] == ["target", "batch", "rounds"]
    cells = [line for line in lines if line.endswith("  measured")]
    assert len([line for line in cells if line.startswith(("1 thread ", "2 threads "))]) == 22
    assert verdict.reason not in out
    assert any("recorded" in line for line in lines)
    assert any(line.startswith("Note: ") for line in lines)


def test_verdict_as_json_has_exactly_the_promised_keys(cli: Command, run_file: Path) -> None:
    data = as_json(cli("verdict", run_file, "--json"))
    assert list(data) == KEYS
    assert data["verdict"] == "crossover"
    assert data["targets"] == ["cpu,threads=1", "cpu,threads=2"]
    assert set(data["crossovers"][0]) == {"batch", "low", "high", "ahead_after"}
    assert data["crossovers"][0]["low"] < 42.8 < data["crossovers"][0]["high"]
    assert data["lead"]["target"] == "cpu,threads=2"


def test_verdict_of_bare_points_has_no_interval(cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("target,batch,step_ms\na,1,1\nb,1,2\na,4,4\nb,4,2\n")
    crossover = as_json(cli("verdict", path, "--json"))["crossovers"][0]
    assert crossover["batch"] == pytest.approx(2.0)
    assert (crossover["low"], crossover["high"], crossover["ahead_after"]) == (None, None, "b")


def test_verdict_of_exported_rounds_is_that_of_the_run(cli: Command, tmp_path: Path) -> None:
    run = make_run()
    quiet = tuple(item.model_copy(update={"interference": Interference()}) for item in run.rounds)
    run = run.model_copy(update={"rounds": quiet})  # the table does not mark disturbed rounds
    whole, path = tmp_path / "whole.json", tmp_path / "rounds.csv"
    whole.write_text(run.to_json())
    path.write_text(rounds_csv(run))
    ours, theirs = (json.loads(cli("verdict", file, "--json")[1]) for file in (whole, path))
    for key in ("verdict", "targets", "ahead", "crossovers", "lead", "reason"):
        assert ours[key] == theirs[key]


def test_the_margin_of_the_lead_can_be_chosen(cli: Command, run_file: Path) -> None:
    leads = [json.loads(cli("verdict", run_file, "--json", "--margin", m)[1])["lead"] for m in ("0.05", "0.4")]
    assert [lead["margin"] for lead in leads] == [0.05, 0.4]
    assert leads[0]["from_batch"] < leads[1]["from_batch"]
    assert "margin" in refused(cli("verdict", run_file, "--margin", "nan"))


@pytest.mark.parametrize("name", ["missing.json", "folder", "empty.csv", "nan.csv", "version.json", "no_rounds.json"])
def test_bad_files_are_refused_with_one_sentence(cli: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "nan.csv").write_text("target,batch,step_ms\na,1,nan\n")
    (tmp_path / "version.json").write_text('{"schema_version": 7}')
    (tmp_path / "no_rounds.json").write_text(make_run().model_copy(update={"rounds": ()}).to_json())
    words = {"missing.json": "cannot be read", "folder": "cannot be read", "empty.csv": "empty", "nan.csv": "Line 2",
             "version.json": "schema version 7", "no_rounds.json": "no measured round"}  # fmt: skip
    assert words[name] in refused(cli("verdict", tmp_path / name))
    assert words[name] in refused(cli("report", tmp_path / name, "--out", tmp_path / "r.html"))
    assert not (tmp_path / "r.html").exists()


def test_a_huge_file_is_refused_without_reading_it(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    monkeypatch.setattr("core.cli.files.read_run", lambda *_: pytest.fail("it was read"))
    holds(refused(cli("verdict", path)), "is too large", "20 MB.")


def test_devices_as_text_and_json(cli: Command) -> None:
    status, out, err = cli("devices", "--json")
    data = json.loads(out)
    assert (status, err) == (0, "")
    assert data["usable_cores"] >= 1
    for target in data["default_targets"]:
        assert str(Target.parse(target)) == target
    assert data["probe"] is None
    status, out, err = cli("devices")
    assert (status, err) == (0, "")
    assert " against ".join(data["default_targets"]) in out
    assert bool(data["gpus"]) is ("No GPU was" not in out)


def test_devices_says_what_limits_it(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Resources(logical_cores=64, usable_cores=2, cpu_quota=2.5, memory_available_bytes=10**9,
                      container_memory_bytes=16 * 10**8)  # fmt: skip
    monkeypatch.setattr("core.machine.environment.resources", lambda: small)
    _, out, _ = cli("devices")
    holds(out, "2 of 64", "quota of 2.5", "1 GB free", "cpu,threads=1 against cpu,threads=2")
    _, out, _ = cli("devices", "--json")
    assert json.loads(out)["container_memory_bytes"] == 16 * 10**8


@pytest.mark.parametrize("command", ["--help", "devices", "verdict", "report"])
def test_commands_load_no_framework_and_are_quick(tmp_path: Path, run_file: Path, command: str) -> None:
    """Check for two seconds of CPU time in one of three tries; a busy machine lengthens it less than wall time."""
    arguments = {
        "--help": ["--help"],
        "devices": ["devices", "--json"],
        "verdict": ["verdict", str(run_file)],
        "report": ["report", str(run_file), "--out", str(tmp_path / "r.html")],
    }[command]
    code = (
        "import sys; from core.cli import main; status = main(sys.argv[1:])\n"
        "print(status, *({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    spent_s = []
    while not spent_s or (spent_s[-1] >= 2.0 and len(spent_s) < 3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    status, *modules = child.stderr.splitlines()[-1].split()
    assert status == "0"
    assert "core" in modules
    assert not {"tensorflow", "keras", "streamlit", "torch", "jax"} & set(modules)
    assert min(spent_s) < 2.0
