"""A worker's own side, with a framework that runs any code of a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.worker.process import ProcessWorker
from core.worker.protocol import CellFailed, Describe, Release, WorkerLost
from core.worker.server import inherited
from core.workload.spec import Target

SERVER = """
import os, sys, types
from core.networks.families.code import call_entry
from core.worker import server
from core.worker.protocol import Described, Ready, Released

class Engine:
    def describe(self, request):
        made = call_entry(request.entry, request.folder)
        layers = tuple({"name": "dense" * 20} for _ in range(made or 0))
        return Described(name="mine", input_shape=(1,), classes=1, layers=layers)

    def release(self, request):
        import mine
        mine.make()
        return Released(batch=request.batch)

start = lambda hello: (Engine(), Ready(pid=os.getpid(), startup_ms=1.0, device="CPU:0"))
sys.modules["fake_framework"] = types.SimpleNamespace(start=start)
server.FRAMEWORKS = {"tensorflow": types.SimpleNamespace(module="fake_framework")}
server.main()
"""
Worker = Callable[[str], ProcessWorker]

pytestmark = pytest.mark.processes


@pytest.fixture
def worker_of(tmp_path: Path) -> Iterator[Worker]:
    """Yield a function that starts a worker for a user's function ``make`` with the given body."""
    workers = []

    def begin(body: str) -> ProcessWorker:
        (tmp_path / "mine.py").write_text("import os, sys\ndef make():\n    " + body.replace("\n", "\n    ") + "\n")
        worker = ProcessWorker(Target(), command=(sys.executable, "-c", SERVER))
        workers.append(worker)
        worker.wait_ready(60)
        return worker

    yield begin
    for worker in workers:
        worker.close()


def describe(worker: ProcessWorker, folder: Path, deadline_s: float = 60.0) -> str:
    """Return the reason why the user's function could not be described."""
    with pytest.raises((CellFailed, WorkerLost)) as caught:
        worker.ask(Describe(entry="mine:make", folder=str(folder)), deadline_s)
    reason: str = caught.value.reason
    assert "\n" not in reason
    assert len(reason) < 400
    return reason


OWN = "class Own(BaseException):\n    def __str__(self): raise SystemExit\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit(3)", "SystemExit: 3 (mine.py, line 3)."),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (mine.py, line 3)."),
        ("raise GeneratorExit('a')", "GeneratorExit: a (mine.py, line 3)."),
        (f"{OWN}raise Own", "Own (mine.py, line 5)."),
        ("make()", "RecursionError: maximum recursion depth exceeded"),
        ("raise ValueError('\\udcff')", "ValueError (mine.py, line 3)."),
        ("import json\njson.loads('{')", "JSONDecodeError: Expecting property name"),
        ("import _thread, time\n_thread.interrupt_main()\nraise OSError('x')", "OSError: x (mine.py, line 5)."),
        ("sys.stderr.close()\nraise OSError('x')", "OSError: x (mine.py, line 4)."),
        ("input()", "EOFError: EOF when reading a line (mine.py, line 3)."),
        ("return 20_000", "The answer is too long"),
    ],
)
def test_whatever_user_code_raises_is_a_sentence_with_its_place_and_the_worker_lives_on(
    worker_of: Worker, tmp_path: Path, body: str, words: str
) -> None:
    worker = worker_of(body)
    assert words in describe(worker, tmp_path)
    assert words in describe(worker, tmp_path)
    assert worker._process.poll() is None


def test_the_place_is_the_users_where_a_library_raises(worker_of: Worker, tmp_path: Path) -> None:
    assert "(mine.py, line 4)." in describe(worker_of("import json\njson.loads('{')"), tmp_path)


def test_an_exception_outside_of_what_catches_them_is_a_sentence_too(worker_of: Worker, tmp_path: Path) -> None:
    worker = worker_of("raise SystemExit('gone')")
    describe(worker, tmp_path)  # imports it
    with pytest.raises(CellFailed, match=r"gone .*line 3"):
        worker.ask(Release(batch=1), 60)


@pytest.mark.parametrize(("kind", "lives"), [("CellFailed", True), ("WorkerLost", False)])
def test_an_engine_that_can_run_nothing_more_ends_its_worker(
    worker_of: Worker, tmp_path: Path, kind: str, lives: bool
) -> None:
    worker = worker_of(f"from core.worker.protocol import {kind}\nraise {kind}('crashed', 'Out.')")
    describe(worker, tmp_path)  # imports it
    with pytest.raises(CellFailed if lives else WorkerLost, match="Out"):
        worker.ask(Release(batch=1), 60)
    assert (worker._process.poll() is None) == lives


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(3)", "ended with exit status 3 while building the model of mine:make."),
        ("os.abort()", "was ended by SIGABRT while building the model of mine:make."),
        ("import ctypes\nctypes.string_at(0)", "was ended by SIGSEGV while building the model of mine:make."),
        ("os.closerange(3, 256)\nimport time\ntime.sleep(600)", "closed its output and was stopped while building"),
    ],
)
def test_a_process_that_user_code_ends_is_a_sentence(worker_of: Worker, tmp_path: Path, body: str, words: str) -> None:
    assert words in describe(worker_of(body), tmp_path)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="fork")
def test_a_child_of_user_code_that_comes_back_answers_nothing(worker_of: Worker, tmp_path: Path) -> None:
    worker = worker_of("os.fork()\nprint('a line of output')")
    request = Describe(entry="mine:make", folder=str(tmp_path))
    for _ in range(3):
        assert worker.ask(request, 60).name == "mine"
    worker.ask(Release(batch=1), 60)


def test_it_says_what_it_inherited_and_its_target_did_not_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.worker.server.quota_cores", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = inherited(Target())
    assert found == {"niceness": os.nice(0), "inherited_threads": {"OMP_NUM_THREADS": "1"}}
    assert inherited(Target(threads=2))["inherited_threads"] == {}
    monkeypatch.setattr("core.worker.server.quota_cores", lambda: 1)
    assert inherited(Target())["inherited_threads"] == {}


def test_a_real_worker_says_it_with_its_first_word(worker_of: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    ready = worker_of("pass").ready
    assert ready.niceness == os.nice(0)
    assert ready.inherited_threads in ({"OMP_NUM_THREADS": "3"}, {})  # a quota of CPUs sets it
