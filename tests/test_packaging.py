"""The package: one source of versions, a wheel with all that it needs, and a console script that works elsewhere."""

import email
import os
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email.message import Message
from pathlib import Path

import psutil
import pytest
import streamlit
from hatchling import build
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import core
from core import __main__, cli
from core.worker.process import worker_environment
from core.workload.spec import Target
from tests.support.servers import PATIENCE_S, answer, free_port

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ("gpu", "jax", "compile", "torch", "postgres", "fleet", "dev")
FILES = {"": "requirements.txt"} | {extra: f"requirements-{extra}.txt" for extra in EXTRAS}
START = "import sys; from core.__main__ import breakeven; sys.exit(breakeven())"  # as pip's console script does


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # where the backend looks for pyproject.toml
        return folder / build.build_wheel(str(folder))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, without its dependencies, in a folder outside the checkout."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def metadata(installed: Path) -> Message:
    return email.message_from_string(next(installed.glob("*.dist-info/METADATA")).read_text(encoding="utf-8"))


def entries(requirements: Iterable[Requirement], extra: str = "") -> set[tuple[str, frozenset[str], str]]:
    """Return the requirements that apply to this machine, as name, extras and versions."""
    return {
        (canonicalize_name(one.name), frozenset(one.extras), str(one.specifier))
        for one in requirements
        if one.marker is None or one.marker.evaluate({"extra": extra})
    }


def written(name: str) -> list[Requirement]:
    """Return the requirements in a file and in those it includes."""
    found: list[Requirement] = []
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        entry = line.partition("#")[0].strip()
        if entry.startswith("-r "):
            found += written(entry[3:])
        elif entry:
            found.append(Requirement(entry))
    return found


@pytest.mark.parametrize("extra", FILES)
def test_extras_agree_with_the_requirements_files(metadata: Message, extra: str) -> None:
    declared = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    assert entries(declared, extra) == entries(written(FILES[extra]))
    assert len(entries(declared, extra)) > (len(entries(declared)) if extra else 10)


def test_extras_have_a_file_each_and_tests_build_with_what_the_package_is_built_with(metadata: Message) -> None:
    assert {"", *metadata.get_all("Provides-Extra", [])} == set(FILES)
    assert {path.name for path in ROOT.glob("requirements*.txt")} == set(FILES.values())
    needed = entries(Requirement(text) for text in PROJECT["build-system"]["requires"])
    assert needed <= entries(written("requirements-dev.txt"))


def test_one_version(metadata: Message, capsys: pytest.CaptureFixture[str]) -> None:
    assert metadata["Version"] == core.__version__
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"Breakeven {core.__version__}\n"


def test_the_wheel_holds_the_engine_its_data_and_the_dashboard(wheel: Path) -> None:
    engine = {path.relative_to(ROOT) for path in (ROOT / "core").rglob("*") if path.is_file()}
    sources = {path.as_posix() for path in engine if "__pycache__" not in path.parts}
    beside = ["app.py", "dashboard.py", ".streamlit/config.toml", "docs/method.md", "docs/terms.md"]
    beside += [f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")]
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if ".dist-info/" not in name}
        assert held == sources | {f"core/dashboard/{name}" for name in beside}
        assert all(file.read(f"core/dashboard/{name}") == (ROOT / name).read_bytes() for name in beside)


def test_the_console_script_is_breakeven_of_one_version(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [script] = next(installed.glob("*.dist-info/entry_points.txt")).read_text(encoding="utf-8").split("\n\n")
    begun = __main__.breakeven
    assert script.split("\n")[:2] == ["[console_scripts]", f"breakeven = {__main__.__name__}:{begun.__name__}"]
    monkeypatch.setattr(__main__, "run_to_end", __main__.main)  # this process continues and handles Ctrl-C
    monkeypatch.setattr(sys, "argv", ["breakeven", "verdict", "--help"])
    assert begun() == 0
    assert capsys.readouterr().out.startswith("Usage: breakeven verdict ")


def test_ctrl_c_while_modules_are_loaded_is_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert __main__.main(["sweep"]) == 1
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.parametrize("begin", ["runpy.run_module('core', run_name='__main__')", START])
def test_ctrl_c_while_python_itself_ends_is_not_heard(begin: str) -> None:
    code = "import atexit, runpy, signal, sys\natexit.register(signal.raise_signal, signal.SIGINT)\n"
    code += f"sys.argv = ['core', '--version']\n{begin}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


def environment(installed: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}


def test_an_installed_command_reads_what_was_shipped(installed: Path, tmp_path: Path) -> None:
    example = installed / "core" / "data" / "example.json"
    command = [sys.executable, "-c", START, "verdict", str(example)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(installed), capture_output=True, text=True, check=True)
    assert "faster from batch" in done.stdout


def test_a_worker_is_ours_in_a_folder_with_a_core_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('somebody else')")
    command = [sys.executable, "-m", "core.worker.protocol"]  # starts like a worker, and ends at once
    subprocess.run(command, cwd=tmp_path, env=worker_environment(Target()), check=True)


def test_an_installed_dashboard_serves_with_our_settings(installed: Path, tmp_path: Path) -> None:
    port = free_port()
    chosen = {"STREAMLIT_SERVER_HEADLESS": "true", "STREAMLIT_SERVER_PORT": str(port)}
    log = (tmp_path / "server.log").open("wb")
    server = subprocess.Popen(
        [sys.executable, "-c", START], cwd=tmp_path, env=environment(installed) | chosen, stdout=log, stderr=log
    )
    try:
        assert answer(server, f"http://127.0.0.1:{port}/_stcore/health") == b"ok"
        assert b"<title>" in answer(server, f"http://127.0.0.1:{port}/")
        heard = [c.laddr.ip for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert set(heard) <= {"127.0.0.1", "::1"}  # .streamlit/config.toml says so; Streamlit alone listens everywhere
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        log.close()


def test_a_server_ends_though_a_browser_has_stopped_loading(tmp_path: Path) -> None:
    chunks = (Path(streamlit.__file__).parent / "static" / "static" / "js").iterdir()
    largest = max(chunks, key=lambda path: path.stat().st_size)  # more than the system buffers
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", "--server.port"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, str(port := free_port())], cwd=ROOT, stdout=log, stderr=log)
        try:
            answer(server, f"http://127.0.0.1:{port}/_stcore/health")
            with socket.socket() as browser:
                browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                browser.connect(("127.0.0.1", port))
                request = f"GET /static/js/{largest.name} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
                browser.sendall(request.encode())
                assert browser.recv(12) == b"HTTP/1.1 200"
                server.terminate()
                server.wait(PATIENCE_S)
        finally:
            server.kill()
    assert b"Traceback" not in (tmp_path / "server.log").read_bytes()
