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

from core.cli import all_commands as declared
from core.cli import commands, main
from core.cli.networks import network_of
from core.studies.memory.record import parse_bytes
from core.workload.spec import Target, parse_batches

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
TABLES = sorted((ROOT / "docs" / "tables").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCUMENTS, *TABLES, ROOT / "benchmarks" / "README.md"]
MAX_README = 6_000  # bytes
MAX_WORDS = 20_000  # of all documents, without tables, blocks of code and what is generated
MAX_WORDS_OF = {"validation.md": 1_600, "design.md": 3_500}
MAX_WORDS_BESIDE_TABLES = 200  # of one file of tables
MAX_WORDS_OF_A_CELL = 45
GENERATED = {"claims.md", "fields.md"}
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
    assert {command.arguments[0] for command in COMMANDS if command.arguments} >= set(declared()) - {"dashboard"}
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
    assert "One real GPU so far" in trust


def prose(text: str) -> str:
    """Return a document without blocks of code and tables."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^(?: {4}|\|).*$", "", text, flags=re.MULTILINE)


def test_prose_is_what_is_neither_code_nor_a_table() -> None:
    text = "# One two\n\nthree\n\n| four | five |\n| --- | --- |\n\n```sh\nsix\n```\n\n    seven\n\n- eight\n"
    assert prose(text).split() == ["#", "One", "two", "three", "-", "eight"]


def test_the_documents_are_short() -> None:
    words = {page.name: len(prose(text_of(page)).split()) for page in DOCUMENTS if page.name not in GENERATED}
    assert words.keys() >= MAX_WORDS_OF.keys()
    assert sum(words.values()) <= MAX_WORDS
    assert {name: words[name] for name, limit in MAX_WORDS_OF.items() if words[name] > limit} == {}


def test_a_table_is_no_place_for_prose() -> None:
    beside = {page.name: len(prose(text_of(page)).split()) for page in TABLES}
    assert len(beside) > 10
    assert {name: words for name, words in beside.items() if words > MAX_WORDS_BESIDE_TABLES} == {}
    rows = [(name(page), row) for page in PAGES for row in re.findall(r"^\|(.+)\|$", text_of(page), re.MULTILINE)]
    cells = [(page, cell) for page, row in rows for cell in re.sub(r"`[^`]*`", "", row).split("|")]
    assert len(cells) > 1_000
    assert [(page, cell) for page, cell in cells if len(cell.split()) > MAX_WORDS_OF_A_CELL] == []


def test_tables_carry_their_date() -> None:
    assert [page.name for page in TABLES if not DATE.search(text_of(page))] == []


def documented_flags() -> dict[str, set[str]]:
    """Return the flags of each command, as the tables under *Flags* in docs/cli.md list them."""
    text = text_of(ROOT / "docs" / "cli.md").partition("\n## Flags\n")[2].partition("\n## ")[0]
    cells = dict(re.findall(r"^\| ([`*][\w-]+[`*]) \| (.+) \|$", text, re.MULTILINE))

    def flags_in(cell: str) -> set[str]:
        named = {flag for group in re.findall(r"\*\w+\*", cell) for flag in flags_in(cells[group])}
        return named | set(re.findall(r"`(--[\w-]+)`", cell))

    return {row.strip("`"): flags_in(cell) for row, cell in cells.items() if row.startswith("`")}


def test_every_flag_of_every_command_is_documented_and_no_other() -> None:
    flags = {
        name: {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        for name, command in declared().items()
    }
    own = {name: {flag for flag in known if flag.startswith("--")} for name, known in flags.items()}
    own.pop("dashboard")  # it passes on the flags of another program
    assert sum(map(len, own.values())) > 200
    documented = documented_flags()
    assert documented.keys() == own.keys()
    assert {name: documented[name] ^ own[name] for name in own if documented[name] != own[name]} == {}


def test_comments_cite_headings_of_the_design() -> None:
    headings = set(re.findall(r"^#+ (.+)$", text_of(ROOT / "docs" / "design.md"), re.MULTILINE))
    cited: list[str] = []
    cited_files: set[str] = set()
    for folder in ("core", "tests", "benchmarks", "pages"):
        for path in (ROOT / folder).rglob("*.py"):
            source = re.sub(r"\s*\n\s*(?:# )?", " ", text_of(path))
            assert not re.search(r"\bDESIGN\b(?!\\b)", source), path
            cited += re.findall(r"docs/design\.md, ([A-Z][a-z ]+)[).:;]", source)
            cited_files |= set(re.findall(r"\bdocs/[\w/]+\.md\b", source))
    assert len(cited) >= 9
    assert set(cited) <= headings
    assert len(cited_files) > 9
    assert [file for file in sorted(cited_files) if not (ROOT / file).is_file()] == []


def test_nothing_names_this_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(?:tmp|work|home|root)/", text_of(page)), page
