"""The direction of imports (which keeps the server small and the engine usable without a browser) as a test."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([ROOT / "app.py", *(ROOT / "pages").rglob("*.py"), *(ROOT / "core").rglob("*.py")])
FRAMEWORKS = {"tensorflow", "keras", "torch", "jax"}


def imported(path: Path) -> set[str]:
    """Full names of every module a file imports, at the top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def roots(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imported(path)}


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > 40
    assert any("streamlit" in roots(path) for path in SOURCES)
    assert any("tensorflow" in roots(path) for path in SOURCES)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_streamlit_stays_in_the_user_interface(path: Path) -> None:
    if not name(path).startswith(("app.py", "pages/", "core/ui/")):
        assert "streamlit" not in roots(path)
        assert not any(module.startswith("core.ui") for module in imported(path))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_framework_is_imported_by_its_own_modules_only(path: Path) -> None:
    if not name(path).startswith("core/measure/tensorflow_"):
        assert not FRAMEWORKS & roots(path)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_only_the_worker_loads_a_framework_module(path: Path) -> None:
    loads = {m for m in imported(path) if m.startswith("core.measure.tensorflow_")}
    if loads:
        assert name(path).startswith(("core/measure/tensorflow_", "core/measure/worker.py"))


@pytest.mark.parametrize("path", [p for p in SOURCES if name(p).startswith("core/analysis/")], ids=name)
def test_analysis_is_pure(path: Path) -> None:
    forbidden = ("core.measure", "core.store", "core.figures", "core.environment", "time", "pathlib", "plotly")
    assert not any(module == f or module.startswith(f + ".") for module in imported(path) for f in forbidden)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_file_is_too_long_to_see_whole(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= (90 if name(path).startswith("pages/") else 400)
