"""A path that cannot be read or written is one sentence and status 2 in every command, before anything is measured."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from core.cli import all_commands
from core.cli.files import FILE
from core.studies.registry import DATA
from simulated.commands import Command, refused

RUN = str(DATA / "example.json")
BESIDE = {
    "predict": ("--gpu", "L4"),
    "report": ("--out", "report.html"),
    "predict --host-out": ("--measure-host",),
    "sweep --data": ("--pipeline", "tfdata"),
}
"""Other arguments that a command, or one of its flags, requires."""


def asks_for_paths() -> list[list[str]]:
    """Return every command with each of its paths replaced by BAD, and all else valid."""
    asked: list[list[str]] = []
    for name, command in all_commands().items():
        for parameter in command.params:
            flag = parameter.opts[0]
            if parameter.type is not FILE and flag not in ("--data", "--host"):
                continue
            path = ["BAD"] if isinstance(parameter, click.Argument) else [flag, "BAD"]
            others = [RUN for p in command.params if isinstance(p, click.Argument) and p is not parameter]
            more = [*BESIDE.get(name, ()), *BESIDE.get(f"{name} {flag}", ())]
            more = [*others, *(() if flag in more else more)]
            asked.append([name, *more, *path] if command.allow_interspersed_args else [name, *path, *more])
    return asked


@pytest.mark.parametrize("asked", asks_for_paths(), ids=" ".join)
def test_a_path_that_cannot_be_used_is_refused_with_one_sentence(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("core.cli.gpus.own_path", lambda: tmp_path / "gpus.json")
    monkeypatch.setattr("core.worker.process.launch_processes", lambda *_, **__: pytest.fail("it began to measure"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for bad in ("pipe", "loop", "/dev/zero", "/dev/null", ".", "x" * 300, "/".join(["x" * 200] * 30), "a\0b", "\udcff",
                "absent/\x1b[31m\u202e\n.json"):  # fmt: skip
        if bad == "\udcff" and asked[asked.index("BAD") - 1] in ("--out", "--noise-out", "--host-out", "--bencher"):
            continue  # a valid name for a new file
        if bad == "." and asked[asked.index("BAD") - 1] == "--asv":
            continue  # a folder, as the option expects
        said = refused(cli(*(bad if word == "BAD" else word for word in asked)))
        assert said.removesuffix("\n").isprintable(), said
        assert "Traceback" not in said
    assert {path.name for path in tmp_path.iterdir()} - {"data"} == {"loop", "pipe"}  # data: the history


def test_there_are_paths_to_ask_for() -> None:
    assert {name for name, *_ in asks_for_paths()} >= {"verdict", "report", "trace", "sweep", "diagnose", "batch"}
    assert len(asks_for_paths()) >= 25
