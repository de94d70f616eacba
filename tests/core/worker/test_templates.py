"""Templates: when workers are forked, from which, with what of their own, and what happens if they cannot be."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.worker import templates
from core.worker.process import MARK, ProcessWorker, launch_processes, worker_environment
from core.worker.protocol import RunBlock, WorkerLost
from core.worker.templates import Template, Templates, key_of
from core.workload.spec import Target

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")]
FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")), "template")
ONE, TWO = Target(threads=1), Target(threads=2)
SHOW = """
import os, threading
from core.worker import template

def show(_):
    print(os.getcwd(), os.environ.get("OMP_NUM_THREADS"), os.environ.get("NEW"), os.environ.get("GONE"))
    print(os.getpgrp() == os.getsid(0) != os.getsid(os.getppid()) or os.getppid(), flush=True)
    os.read(0, 1)
    os._exit(0)

template.main("json", show)
"""


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(templates.OFF)
    monkeypatch.setenv("FAKE_WAY", "failed")


def made(command: tuple[str, ...], environment: dict[str, str] | None = None) -> Template:
    template = Template(environment or worker_environment(ONE), command)
    assert template.wait(60)
    return template


def until(holds: Any) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)


@pytest.fixture
def several() -> Iterator[Templates]:
    kept = Templates(FAKE)
    yield kept
    kept.close()


def of(several: Templates, *targets: Target) -> tuple[Template | None, ...]:
    return several.of([(target, worker_environment(target)) for target in targets], 120)


def test_a_fork_has_an_environment_streams_and_a_session_of_its_own() -> None:
    template = made((sys.executable, "-c", SHOW), worker_environment(ONE) | {"GONE": "1"})
    environment = worker_environment(TWO) | {MARK: "f" * 16, "NEW": "n"}
    one, other = template.fork(environment), template.fork(worker_environment(ONE) | {MARK: "e" * 16})
    assert one is not None
    assert other is not None
    assert one.stdout.readline().decode().split() == [str(Path.cwd()), "2", "n", "None"]
    assert other.stdout.readline().decode().split()[1:3] == ["1", "None"]
    assert one.stdout.readline().decode().strip().isdigit()  # the session is its keeper's
    for process, mark in ((one, "f" * 16), (other, "e" * 16)):
        (worker,) = psutil.Process(process.pid).children()
        assert [psutil.Process(pid).environ()[MARK] for pid in (process.pid, worker.pid)] == [mark, mark]
    assert one.poll() is None
    one.stdin.write(b"x")
    one.stdin.flush()
    assert one.wait(30) == 0
    assert other.poll() is None
    other.stdin.close()
    assert other.wait(30) == 0
    template.end()
    assert template.fork(environment) is None


def test_what_forks_allocate_lies_at_addresses_of_their_own() -> None:
    show = "import ctypes, mmap, os, sys; from core.worker import template\ndef show(_):\n"
    show += "    held = mmap.mmap(-1, 1 << 20)\n"
    show += "    print(ctypes.addressof(ctypes.c_char.from_buffer(held)), flush=True); os._exit(0)\n"
    template = made((sys.executable, "-c", show + "template.main('json', show)"))
    places = set()
    for number in range(8):
        one = template.fork(worker_environment(ONE) | {MARK: f"{number:016d}"})
        assert one is not None
        places.add(int(one.stdout.readline()))
        assert one.wait(30) == 0
    template.end()
    assert len(places) > 4


def test_a_template_waits_without_using_the_processor_and_ends_after_its_last_worker() -> None:
    template = made(FAKE)
    worker = ProcessWorker(ONE, template=template)
    worker.wait_ready(60)
    assert worker.pid not in (template.pid, worker.ready.pid)
    process = psutil.Process(psutil.Process(worker.pid).ppid())
    before = process.cpu_times()
    time.sleep(1.0)
    assert process.cpu_times() == before
    template.retire()
    assert not template.usable
    time.sleep(0.2)
    assert process.is_running()
    worker.close()
    until(lambda: not process.is_running())
    until(lambda: not psutil.pid_exists(template.pid))


@pytest.mark.parametrize("whom", ["template", "its keeper"])
def test_workers_of_a_template_that_is_killed_are_lost(whom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WAY", "hang")
    template = made(FAKE)
    worker = ProcessWorker(ONE, template=template)
    worker.wait_ready(60)
    os.kill(psutil.Process(worker.pid).ppid() if whom == "template" else template.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match=r"SIGKILL|exit status 0"):
        worker.ask(RunBlock(batch=1, steps=1), 30)
    until(lambda: not psutil.pid_exists(worker.ready.pid))
    until(lambda: not template.usable)


def test_nobody_waits_for_a_template_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "FORK_S", 0.5)
    template = made(FAKE)
    worker = ProcessWorker(ONE, template=template)
    worker.wait_ready(60)
    process = psutil.Process(psutil.Process(worker.pid).ppid())
    process.suspend()
    began = time.monotonic()
    worker.close()
    assert template.fork(worker_environment(ONE) | {MARK: "f" * 16}) is None
    assert time.monotonic() - began < 20
    assert psutil.Process(worker.pid).status() == psutil.STATUS_ZOMBIE
    template.end()
    assert not process.is_running()


def test_a_template_whose_keeper_is_stopped_ends_and_is_not_waited_for(several: Templates) -> None:
    several.warm(ONE, worker_environment(ONE))
    ((one, other),) = several._known.values()
    assert one.wait(60)
    assert other.wait(60)
    (process,) = psutil.Process(one.pid).children()
    psutil.Process(one.pid).suspend()
    one.end()
    assert one.ended
    assert not process.is_running()
    several._retire(other)
    psutil.Process(other.pid).suspend()
    several.close()
    assert other.ended

    importing = Templates((sys.executable, "-c", "import time; time.sleep(600)"))
    importing.warm(ONE, worker_environment(ONE))
    (turn,) = importing._known.values()
    until(lambda: all(template.pid and psutil.Process(template.pid).children() for template in turn))
    for template in turn:
        psutil.Process(template.pid).suspend()
    for _ in turn:
        with pytest.raises(WorkerLost):
            importing.of([(ONE, worker_environment(ONE))], 0.4)
    assert of(importing, ONE) == (None,)
    assert all(template.ended for template in turn)
    importing.close()


def test_a_template_that_cannot_be_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a template that waits for an unresponsive disk."""
    monkeypatch.setattr(templates, "END_S", 0.1)
    importing = Templates((sys.executable, "-c", "import time; time.sleep(600)"))
    with monkeypatch.context() as unable:
        for stop in ("end_keeper", "kill_group"):
            unable.setattr(templates, stop, lambda _: None)
        with pytest.raises(WorkerLost):
            importing.of([(ONE, worker_environment(ONE))], 0.4)
    importing.close()


THREAD = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
OPEN = "import os, core.worker.template as t; t.CUDA_FILES = '/dev/null'; os.open('/dev/null', 0)"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (THREAD, "threads beside the main one"),
        (OPEN, "a GPU is open"),
        ("raise ImportError", "could not be imported"),
        ("import os; os._exit(3)", "could not be imported"),
    ],
)
def test_what_cannot_be_forked_safely_is_not_and_that_is_counted(before: str, why: str) -> None:
    several = Templates((sys.executable, "-c", f"{before}\nfrom core.worker import template; template.main('json')"))
    assert of(several, ONE, TWO) == (None, None)
    assert of(several, ONE) == (None,)
    ((reason, count),) = several.fresh.items()
    assert why in reason
    assert count == 2  # starts
    assert all(template.starts == 1 for (turn,) in [several._known.values()] for template in turn)  # none was added
    several.close()


def test_a_thread_that_came_later_is_seen_at_the_fork_and_a_worker_then_starts_afresh() -> None:
    patched = "import threading, time, core.worker.template as t; said = t._say\n"
    patched += "def say(pipe, **words):\n    said(pipe, **words)\n"
    patched += "    if pipe == 1: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    patched += "t._say = say; t.main('json')"
    template = made((sys.executable, "-c", patched))
    assert template.usable
    time.sleep(0.3)
    worker = ProcessWorker(ONE, command=(*FAKE[:2],), template=template)
    worker.wait_ready(60)
    assert "threads beside" in template.refused
    worker.close()
    template.end()


def test_targets_that_differ_in_threads_share_a_template_and_others_do_not(
    several: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, gpu = of(several, ONE, TWO, Target(device="gpu:0"))
    assert one is two is not None
    assert gpu is None
    assert one.environment["OMP_NUM_THREADS"] == one.environment["OPENBLAS_NUM_THREADS"] == "1"
    assert one.environment["CUDA_VISIBLE_DEVICES"] == "-1"
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert of(several, ONE)[0] is not one


def test_a_template_is_replaced_after_so_many_starts_or_when_it_is_gone(
    several: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "STARTS_A_TEMPLATE", 2)
    first, _ = of(several, ONE, TWO)
    (second,) = of(several, ONE)
    assert second is not first
    assert of(several, ONE) == (first,)
    (third,) = of(several, ONE)
    assert third not in (first, second)
    assert of(several, ONE) == (second,)
    until(lambda: not psutil.pid_exists(first.pid))
    os.kill(third.pid, signal.SIGKILL)
    until(lambda: third.gone)
    assert all(of(several, ONE)[0].usable for _ in range(2))
    assert not several.fresh


def test_there_are_few_templates_at_a_time(several: Templates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_KINDS", 1)
    (first,) = of(several, ONE)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    (second,) = of(several, ONE)
    until(lambda: not psutil.pid_exists(first.pid))
    assert second.usable


def test_warming_up_waits_for_nothing_and_starts_one_template(several: Templates) -> None:
    several.warm(ONE, worker_environment(ONE))
    several.warm(TWO, worker_environment(TWO))
    (turn,) = several._known.values()
    one, other = turn
    assert one.starts == other.starts == 0
    assert [of(several, ONE), of(several, ONE)] == [(one,), (other,)]
    several.close()
    assert not psutil.pid_exists(one.pid)
    assert not psutil.pid_exists(other.pid)


def test_an_import_that_takes_too_long_or_is_no_longer_wanted_is_given_up() -> None:
    several = Templates((sys.executable, "-c", "import time; time.sleep(600)"))
    for _ in range(templates.IN_TURN):
        with pytest.raises(WorkerLost, match="while importing") as lost:
            several.of([(ONE, worker_environment(ONE))], 0.4)
        assert lost.value.outcome == "hung"
    assert of(several, ONE) == (None,)  # at once
    assert several.fresh == {lost.value.reason: 1}

    def stop() -> None:
        raise KeyboardInterrupt

    several.close()
    with pytest.raises(KeyboardInterrupt):
        several.of([(ONE, worker_environment(ONE))], 60, stop)
    (turn,) = several._known.values()
    several.close()
    assert not any(psutil.pid_exists(template.pid) for template in turn)


def test_what_is_forked_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = worker_environment(ONE)
    assert key_of(ONE, environment) is not None
    assert key_of(Target(device="gpu:0"), environment) is None
    assert key_of(Target(framework="jax"), environment) is None
    assert key_of(ONE, environment | {templates.OFF: "1"}) is None
    with monkeypatch.context() as short:
        short.setattr(templates, "available_memory_bytes", lambda: 10**9)
        assert key_of(ONE, environment) is None
    monkeypatch.setenv("BREAKEVEN_PYTHON_TENSORFLOW", "/other/python")
    assert key_of(ONE, environment) is None
    monkeypatch.delenv("BREAKEVEN_PYTHON_TENSORFLOW")
    asked: list[Any] = []

    def nothing(*asked_for: Any) -> tuple[None, ...]:
        asked.append(asked_for)
        raise KeyboardInterrupt

    monkeypatch.setattr(templates.TEMPLATES, "of", nothing)
    monkeypatch.setattr("core.worker.process.ProcessWorker", nothing)
    for options in ({"fresh": True}, {"allow_code": True}, {"limit_bytes": 10**9}):
        with pytest.raises(TypeError):  # it tried to start one
            launch_processes((ONE,), 60, **options)
        assert not asked
    with pytest.raises(KeyboardInterrupt):
        launch_processes((ONE,), 60)
