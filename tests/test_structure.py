"""The permitted imports between parts of the code: one list, from the ground up, and no circle of files."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    [ROOT / "app.py", ROOT / "dashboard.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "core").rglob("*.py")]
)
FRAMEWORKS = {"tensorflow", "keras", "torch", "jax"}
FOLDERS = ("tensorflow", "jax", "torch", "pytorch", "litert", "keras", "watch")
FRAMEWORK_MODULES = tuple(f"core.worker.{folder}." for folder in FOLDERS)

KINDS = tuple(f"core.studies.{init.parent.name}" for init in sorted((ROOT / "core" / "studies").glob("*/__init__.py")))
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core.base.text",),
    ("core.base.schema",),
    ("core.base",),
    ("core.networks.architecture",),
    ("core.networks",),
    ("core.workload.lengths",),
    ("core.workload.spec",),
    ("core.workload",),
    ("core.machine",),
    ("core.userdata",),
    ("core.traces",),
    ("core.worker",),
    ("core.analysis",),
    ("core.figures",),
    ("core.rounds.study",),
    ("core.rounds.plan",),
    ("core.rounds.run",),
    ("core.rounds.first_pass",),
    ("core.rounds.ran_as",),
    ("core.rounds.answer",),
    ("core.rounds.show",),
    ("core.hardware",),
    ("core.studies",),
    KINDS,
    ("core.store",),
    ("core.notebook",),
    ("core.cli",),
    ("core.ui",),
    ("core.__main__",),
    ("pages",),
    ("dashboard",),
    ("app",),
)
"""Layers from the ground up; a module belongs to the longest name that it begins with, and imports nothing of a later
layer. Folders of one layer may import each other, without a circle.
"""
PLACES = {name: number for number, names in enumerate(LAYERS) for name in names}

PACKAGES = (
    "core",
    "core.studies",
    "core.rounds",
    "core.networks",
)
"""Folders that only hold others; their own ``__init__`` is a docstring."""
LIGHT = ("core.analysis", "core.figures", "core.studies.batch")  # pure: no machine, worker, store or clock
IMPURE = ("core.machine", "core.worker", "core.store", "time", "pathlib")


def name(path: Path) -> str:
    """Return ``core.rounds.plan`` for core/rounds/plan.py."""
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")


MODULES = {name(path): path for path in SOURCES}


@cache
def imported(module: str) -> frozenset[str]:
    """Return the full names of every module that one imports, at the top or inside a function; ours, and others."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else node.module or "")
    return frozenset(found)


def roots(module: str) -> set[str]:
    return {other.split(".")[0] for other in imported(module)}


def layer(module: str) -> int:
    return PLACES[place(module)]


def place(module: str) -> str:
    """Return the longest name in LAYERS that a module begins with."""
    own = [name for name in PLACES if f"{module}.".startswith(f"{name}.")]
    assert own, f"{module} belongs to no layer; name its folder in LAYERS"
    return max(own, key=len)


OURS = [module for module in MODULES if module not in PACKAGES]


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 40
    assert any("streamlit" in roots(module) for module in OURS)
    assert any("tensorflow" in roots(module) for module in OURS)
    assert {place(module) for module in OURS} == set(PLACES), "a name in LAYERS without a module"


def test_no_module_imports_one_of_a_later_layer() -> None:
    upward = [(module, other) for module in OURS for other in imported(module) if other in OURS]
    assert [pair for pair in upward if layer(pair[1]) > layer(pair[0])] == []


def test_no_circle_of_files() -> None:
    graph = {module: {other for other in imported(module) if other in MODULES} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_streamlit_is_imported_by_the_dashboard_only() -> None:
    assert [
        m for m in OURS if "streamlit" in roots(m) and not m.startswith(("app", "dashboard", "pages.", "core.ui"))
    ] == []


def test_a_framework_is_imported_by_its_own_modules_in_the_worker_only() -> None:
    assert [m for m in OURS if FRAMEWORKS & roots(m) and not m.startswith(FRAMEWORK_MODULES)] == []
    loading = {m for m in OURS if any(other.startswith(FRAMEWORK_MODULES) for other in imported(m))}
    assert {m for m in loading if not m.startswith(FRAMEWORK_MODULES)} <= {"core.worker.server"}


def test_ray_is_imported_by_one_module_only() -> None:
    assert [m for m in OURS if "ray" in roots(m)] == ["core.studies.fleet.ray_cluster"]


def test_what_derives_is_pure() -> None:
    pure = [(m, other) for m in OURS if m.startswith(LIGHT) for other in imported(m)]
    assert [pair for pair in pure if any(f"{pair[1]}.".startswith(f"{impure}.") for impure in IMPURE)] == []


def test_only_one_module_prints() -> None:
    """Check for printing, since text printed elsewhere is not cleaned of control characters (:mod:`core.base.text`)."""

    def prints(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        called = ast.unparse(node.func)
        return called in ("print", "click.echo", "click.secho", "echo", "secho") or called.startswith(
            ("sys.stdout.write", "sys.stderr.write", "rich.print", "console.print", "traceback.print")
        )

    trees = {m: ast.parse(path.read_text(encoding="utf-8")) for m, path in MODULES.items()}
    found = {m for m, tree in trees.items() if any(map(prints, ast.walk(tree))) and not m.startswith("core.worker.")}
    # "Stopped." may come before there is a terminal; a worker's stderr is its log, which ends in a failure's sentence
    assert found == {"core.cli.terminal", "core.__main__"}


def test_no_file_is_too_long_to_see_whole() -> None:
    lines = {m: path.read_text(encoding="utf-8").count("\n") for m, path in MODULES.items()}
    assert {m: n for m, n in lines.items() if n > (90 if m.startswith("pages.") else 600)} == {}


def test_no_circle_of_folders() -> None:
    graph: dict[str, set[str]] = {}
    for module in OURS:
        own = folder(module)
        graph.setdefault(own, set()).update(
            other for other in (folder(m) for m in imported(module) if m in OURS) if other != own
        )
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def folder(module: str) -> str:
    """Return the folder of a module; one that stands beside folders is a place of its own."""
    if MODULES[module].name == "__init__.py":
        return module
    parent = module.rpartition(".")[0]
    beside = any(other != module and other.startswith(f"{parent}.") and MODULES[other].name == "__init__.py"
                 and other != parent for other in MODULES)  # fmt: skip
    return module if beside else parent


def test_benchmarks_and_made_up_machines_import_no_tests() -> None:
    made_up = [path for folder in ("benchmarks", "simulated") for path in (ROOT / folder).rglob("*.py")]
    found = [(path.name, node.module) for path in made_up for node in ast.walk(ast.parse(path.read_text("utf-8")))
             if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests"]  # fmt: skip
    assert found == []
    measuring = [m for m in OURS if {"simulated", "benchmarks", "tests"} & roots(m)]
    assert measuring == []
