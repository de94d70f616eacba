"""The notebook that validates on a hosted machine: run here from a folder and a zip file, its commands recorded."""

import io
import json
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import click
import pytest

from core.cli import commands

ROOT = Path(__file__).parents[2]
BOOK = json.loads((ROOT / "docs" / "validate.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in BOOK["cells"] if cell["cell_type"] == "code"]
HEAD = 'SOURCE = ""'


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return a folder like the product's, and a zip file of it."""
    folder = tmp_path / "product" / "breakeven-main"
    for name in ("core/__init__.py", "requirements.txt", "docs/requirements.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    with zipfile.ZipFile(tmp_path / "product.zip", "w") as made:
        for file in sorted(folder.rglob("*.*")):
            made.write(file, file.relative_to(folder.parent))
    return tmp_path


class Recorded:
    """Substitute for :class:`subprocess.Popen` that records what the notebook starts."""

    started: ClassVar[list[tuple[list[str], Path]]] = []
    returncode = 0

    def __init__(self, command: list[str], cwd: Path, **_: Any) -> None:
        self.started.append((command, cwd))
        self.stdout = io.StringIO("A line.\n")

    def __enter__(self) -> "Recorded":
        return self

    def __exit__(self, *_: object) -> None: ...


def run_book(monkeypatch: pytest.MonkeyPatch, source: str, **choices: str) -> list[tuple[list[str], Path]]:
    """Run every code cell with these choices; what it started, and where."""
    monkeypatch.setattr("subprocess.Popen", Recorded)
    monkeypatch.setattr(Recorded, "started", [])
    names: dict[str, Any] = {}
    for text in CODE:
        exec(compile(text, "validate.ipynb", "exec"), names)
        if HEAD in text:
            names |= {"SOURCE": source, **choices}
    return Recorded.started


def understood(arguments: list[str]) -> dict[str, Any]:
    """Parse a command of ours without running it, or raise click.UsageError for an unknown option."""
    group = click.Context(commands, info_name="breakeven")
    name, command, rest = commands.resolve_command(group, arguments)
    assert command is not None
    return command.make_context(name, rest, parent=group).params


@pytest.mark.parametrize("source", ["product", "product.zip"])
def test_it_installs_looks_and_validates_in_the_products_folder(
    packed: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(packed)
    started = run_book(monkeypatch, source, CARD="T4", HOST="weak")
    assert [command[:3] for command, _ in started] == [[sys.executable, "-m", name] for name in ("pip", "core", "core")]
    assert {folder.name for _, folder in started} == {"breakeven-main"}
    assert all((folder / "core").is_dir() for _, folder in started)
    *_, requirements = started[0][0]
    assert "-r requirements.txt" in (ROOT / requirements).read_text()
    for command, _ in started[1:]:
        given = understood(command[3:])
    assert (given["minutes"], given["gpu"], given["host"]) == (30.0, "T4", "weak")
    assert given["out"] == packed / "validation.json"


def test_a_hosted_machine_uploads_the_zip_and_downloads_the_file(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(packed)
    (packed / "validation.json").write_text("{}")
    downloaded: list[str] = []
    files = SimpleNamespace(upload=lambda: {"product.zip": b""}, download=downloaded.append)
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace(files=files))
    started = run_book(monkeypatch, "")
    assert "--gpu" not in started[-1][0]
    assert downloaded == [str(packed / "validation.json")]


def test_a_folder_without_the_product_ends_it_with_a_sentence(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(packed)
    (packed / "empty").mkdir()
    with pytest.raises(SystemExit, match="in empty"):
        run_book(monkeypatch, "empty")


def test_it_is_committed_as_it_was_before_it_ran() -> None:
    assert CODE[0].startswith(HEAD)
    assert not any(cell.get("outputs") for cell in BOOK["cells"])
    assert len({cell["id"] for cell in BOOK["cells"]}) == len(BOOK["cells"])
