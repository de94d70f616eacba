"""Statements of the documents: links, commands, names, dates, and citations in the code's comments."""

import importlib.util
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from core.cli import commands, main
from core.cli.networks import network_of
from core.spec import Target, parse_batches
from core.studies.memory.plan import parse_bytes

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
MAX_README = 6_000
PROGRAMS = ("python -m core", "breakeven")
READING = ("devices", "gpus", "verdict", "report", "predict", "batch")  # quick, and nothing is measured
MEASURING = {"--probe", "--measure-host", "--add", "--budget"}
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
FOLDERS = "core|pages|tests|benchmarks|docs"


class Link(NamedTuple):
    page: Path
    target: str


class Command(NamedTuple):
    page: Path
    line: str

    @property
    def arguments(self) -> list[str]:
        program = next(program for program in PROGRAMS if self.line.startswith(program))
        return shlex.split(self.line.removeprefix(program), comments=True)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def fenced(page: Path) -> list[str]:
    """Return the lines of fenced and indented blocks, joined at backslashes."""
    text = text_of(page)
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks += re.findall(r"(?:^|\n\n)((?: {4}.*\n?)+)", text)
    return [line.strip() for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]


def quoted(page: Path) -> list[str]:
    """Return the texts between backticks outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE))


def slugs(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def all_links() -> Iterator[Link]:
    for page in PAGES:
        yield from (Link(page, target) for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)))


def all_commands() -> Iterator[Command]:
    for page in PAGES:
        lines = [line.removeprefix("$ ") for line in fenced(page)]
        lines += [text for text in quoted(page) if "…" not in text]
        for line in dict.fromkeys(lines):
            if any(line == program or line.startswith(f"{program} ") for program in PROGRAMS):
                yield Command(page, line)


def parsed(arguments: list[str]) -> click.Context | None:
    """Return the command's context, with every flag parsed and nothing run; None for help, version or no command."""
    group = click.Context(commands, info_name="breakeven")
    if not arguments or arguments[0].startswith("-"):
        return None
    _, command, rest = commands.resolve_command(group, list(arguments))
    return command.make_context(command.name, rest, parent=group)


LINKS, COMMANDS = list(all_links()), list(all_commands())


def test_there_is_something_to_check_and_commands_that_only_read_were_run() -> None:
    assert len(LINKS) > 20
    assert len(COMMANDS) > 25
    assert {command.arguments[0] for command in COMMANDS if command.arguments} >= set(commands.commands) - {"dashboard"}
    ran = {command.arguments[0] for command in COMMANDS if runs_here(command)}
    assert ran >= {"--version", *READING}


def test_the_readme_is_short_shows_a_run_and_the_two_commands_as_they_are() -> None:
    lines = fenced(ROOT / "README.md")
    assert "pip install -r requirements.txt && streamlit run app.py" in lines
    assert "pip install -r requirements-dev.txt && pytest" in lines
    assert len((ROOT / "README.md").read_bytes()) < MAX_README
    shown = [command.arguments[0] for command in COMMANDS if command.page.parent == ROOT and command.arguments]
    assert "sweep" in shown
    assert re.search(
        r"^All times are measured: .*, finished, \d+ \w+ 20\d\d", text_of(ROOT / "README.md"), re.MULTILINE
    )


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{name(link.page)}:{link.target}")
def test_a_link_leads_somewhere(link: Link) -> None:
    path, _, anchor = link.target.partition("#")
    if "://" in path:
        pytest.fail("a test cannot follow it, and a reader without a network neither")
    there = (link.page.parent / path).resolve() if path else link.page
    assert there.is_relative_to(ROOT)
    assert there.exists()
    if anchor:
        assert anchor in slugs(there)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{name(command.page)}:{command.line[:60]}")
def test_a_command_is_understood(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "core" / "data", tmp_path / "core" / "data")
    context = parsed(command.arguments)
    if context is not None:
        check_values(context.params)
    if runs_here(command):
        assert main(command.arguments) == 0


def check_values(given: dict[str, Any]) -> None:
    """Check networks, targets, batches and limits of flags, but not files; raise ValueError for an invalid one."""
    if "preset" in given and not given["architecture"] and not given["model"]:
        network_of(given)
    for text in (*(given.get("targets") or ()), *([given["target"]] if given.get("target") else [])):
        Target.parse(text)
    if given.get("batches"):
        parse_batches(given["batches"])
    if given.get("limit"):
        parse_bytes(given["limit"])


def runs_here(command: Command) -> bool:
    """Check that it only reads, and that its files are in the repository."""
    arguments = command.arguments
    if arguments and arguments[0] not in READING:
        return arguments in (["--version"], ["--help"])
    files = [word for word in arguments if word.endswith((".json", ".csv"))]
    return bool(arguments) and not MEASURING & set(arguments) and all((ROOT / file).is_file() for file in files)


def test_what_a_command_must_not_take_is_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        parsed(["sweep", "--no-such-flag"])
    with pytest.raises(click.UsageError):
        parsed(["report"])
    with pytest.raises(ValueError, match="no network"):
        check_values(parsed(["sweep", "--preset", "no-such-net"]).params)  # type: ignore[union-attr]


def benchmark_commands() -> list[str]:
    lines = [line for page in PAGES for line in fenced(page)]
    return [line for line in lines if line.startswith("python -m benchmarks.")]


@pytest.mark.parametrize("line", benchmark_commands())
def test_a_benchmark_has_the_flags_shown(line: str) -> None:
    place = ROOT / "benchmarks" / line.split()[2].removeprefix("benchmarks.").replace(".", "/")
    source = text_of(place / "command.py" if place.is_dir() else place.with_suffix(".py"))
    assert all(f'"{flag}"' in source for flag in re.findall(r"--[a-z-]+", line))


def names() -> list[tuple[Path, str]]:
    """Return the repository's paths and modules between backticks, except those of the added study."""
    pattern = rf"(?:(?:{FOLDERS})/[\w./*-]*|core(?:\.\w+)+)"
    found = [(page, text) for page in PAGES for text in quoted(page) if re.fullmatch(pattern, text)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("page", "text"), names(), ids=lambda value: value if isinstance(value, str) else name(value))
def test_a_file_or_module_exists(page: Path, text: str) -> None:
    assert page.is_file()
    if "/" in text:
        assert list(ROOT.glob(text.rstrip("/")))
    else:
        assert importlib.util.find_spec(text) is not None


def test_figures_carry_their_date() -> None:
    headings = re.findall(r"^## (.+)$", text_of(ROOT / "docs" / "validation.md"), re.MULTILINE)
    assert len(headings) > 12
    assert all(DATE.search(heading) for heading in headings)
    trust = text_of(ROOT / "README.md").partition("## How far to trust it")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!figure|---)(.+) \|$", trust, re.MULTILINE)
    assert len(rows) == 5
    assert all(DATE.search(row) for row in rows)
    assert "No GPU has run this code yet" in trust


def test_comments_cite_headings_of_the_design() -> None:
    headings = set(re.findall(r"^#+ (.+)$", text_of(ROOT / "docs" / "design.md"), re.MULTILINE))
    cited: list[str] = []
    for folder in ("core", "tests", "benchmarks", "pages"):
        for path in (ROOT / folder).rglob("*.py"):
            source = re.sub(r"\s*\n\s*(?:# )?", " ", text_of(path))
            assert not re.search(r"\bDESIGN\b(?!\\b)", source), path
            cited += re.findall(r"docs/design\.md, ([A-Z][a-z ]+)[).:;]", source)
    assert len(cited) >= 9
    assert set(cited) <= headings


def test_nothing_names_this_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(?:tmp|work|home|root)/", text_of(page)), page
