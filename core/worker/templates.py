"""Life cycle of this program's templates (:mod:`core.worker.template`) and their forks.

Templates are shared by targets with the same framework, interpreter and environment, and serve them in turn; a worker's
number of threads is set after the fork. If forking is impossible or unsafe there is no template, and workers start
afresh.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from core.base.frameworks import FRAMEWORKS
from core.machine.cores import THREAD_LIMITS
from core.machine.environment import available_memory_bytes, process_memory_limit
from core.machine.installed import python_of
from core.worker.children import end_keeper, kill_group
from core.worker.keeper import KEEPER, MARK
from core.worker.protocol import Check, WorkerLost, go_on
from core.workload.spec import Target

COMMAND = (sys.executable, "-m", "core.worker.template")
OFF = "BREAKEVEN_FRESH_STARTS"
"""Environment variable: any value makes every worker start afresh."""
FORKED = ("tensorflow",)
"""Frameworks whose forks vary as much as fresh processes do (docs/tables/processes.md), on the CPU alone."""
LATE = THREAD_LIMITS
"""Variables in which a worker may differ from its template, where they are 1.

NumPy's thread pool, started on import, is then empty, and TensorFlow has its own pools, which start after the fork.
"""
MARK_LENGTH = 16
IN_TURN = 2
"""Number of templates that serve the same workers in turn.

What the forks of one template share (the address layout, the hash seed) then shows as variation between starts. It is
too small to be measured (docs/tables/processes.md).
"""
STARTS_A_TEMPLATE = 6
MOST_KINDS = 3
LEAST_FREE_BYTES = 2_000_000_000  # a template holds some 0.3 GB, most of it shared with its forks
FORK_S = 10.0
HUNG = "The process that workers are forked from hung after {seconds:.0f} s while importing the framework."
SLICE_S = 0.05
END_S = 2.0


class Forked:
    """The keeper of a forked worker, with the interface of :class:`subprocess.Popen`."""

    returncode: int | None = None

    def __init__(self, pid: int, fate: FileIO, streams: Sequence[int]) -> None:
        self.pid, self._fate = pid, fate
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(stream, mode) for stream, mode in zip(streams, ("wb", "rb", "rb"), strict=True)
        )

    def poll(self) -> int | None:
        """Return the exit code as Popen does; SIGKILL for a worker whose template is gone."""
        if self.returncode is None and (words := _read(self._fate, 0.0)) is not None:
            self.returncode = words.get("status", -signal.SIGKILL)
            self._fate.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code. Raises subprocess.TimeoutExpired.

        Without a timeout, which is after a kill, a stopped template that writes nothing is waited for :data:`FORK_S`
        only.
        """
        if self.returncode is None:
            select.select([self._fate], [], [], FORK_S if timeout is None else timeout)
        if self.poll() is None and timeout is not None:
            raise subprocess.TimeoutExpired("a forked worker", timeout)
        return -signal.SIGKILL if self.returncode is None else self.returncode

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)


class Template:
    """One template process, which ends with this program.

    ``starts`` counts the launches that forked from it, where workers started side by side count once. ``command``
    replaces its command line, for tests of the transport.
    """

    def __init__(self, environment: Mapping[str, str], command: Sequence[str]) -> None:
        self.environment = dict(environment) | {MARK: "0" * MARK_LENGTH}
        self.starts = 0
        self.refused = ""
        """Why it permanently forks no worker: it could not import the framework, or is not safe to fork."""
        self.gone = False
        self._answered = threading.Event()
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: subprocess.Popen[bytes] | None = None
        # the kernel ends a keeper with the thread that started it, so that thread lives as long as the template
        self._thread = threading.Thread(target=self._hold, args=(control, command), name="template", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Pid of its keeper."""
        return None if self._process is None else self._process.pid

    @property
    def usable(self) -> bool:
        """True if it has imported the framework and can be forked."""
        return self._answered.is_set() and not self.refused and not self.gone

    @property
    def ended(self) -> bool:
        """True if the process has ended."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its answer whether it can be forked; return False on a timeout."""
        return self._answered.wait(timeout_s)

    def fork(self, environment: Mapping[str, str]) -> Forked | None:
        """Return a forked worker with that environment; None on failure, with the reason in ``refused``."""
        before = self.environment
        changed = {name: environment.get(name) for name in {*environment, *before}
                   if environment.get(name) != before.get(name)}  # fmt: skip
        pairs = [os.pipe() for _ in range(4)]  # stdin, stdout, stderr, and the status pipe
        theirs = [pairs[0][0], *(writing for _, writing in pairs[1:])]
        ours = [pairs[0][1], *(reading for reading, _ in pairs[1:-1])]
        fate = os.fdopen(pairs[-1][0], "rb", buffering=0)
        with contextlib.suppress(OSError):  # it is gone, and will not answer
            socket.send_fds(self._control, [json.dumps(changed).encode()], theirs)
        for pipe in theirs:
            os.close(pipe)
        words = _read(fate, FORK_S) or {}
        if "pid" in words:
            return Forked(words["pid"], fate, ours)
        for pipe in ours:
            os.close(pipe)
        fate.close()
        self.refused = words.get("refused") or "The template did not answer."
        return None

    def retire(self) -> None:
        """Fork no more; the process ends as soon as its workers have."""
        self.gone = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process now, and its workers."""
        self.retire()
        for stop in (end_keeper, kill_group):
            if self._process is not None and self._process.poll() is None:
                stop(self._process.pid)
            self._thread.join(END_S)

    def _hold(self, control: socket.socket, command: Sequence[str]) -> None:
        """Start the process, wait for its answer and for its end."""
        try:
            with control:
                self._process = subprocess.Popen(
                    (*KEEPER, str(os.getpid()), *command),
                    stdin=control.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=self.environment,
                    start_new_session=True,
                )
            assert self._process.stdout is not None
            with self._process.stdout as out:
                line = out.readline()
            if line or self._process.wait() >= 0:  # not if something outside killed it: another one may work
                self.refused = self.refused or _words(line).get("refused", "The framework could not be imported.")
            self._answered.set()
            self._process.wait()
        except OSError as error:
            self.refused = f"No process could be started: {error.strerror}."
        finally:
            self.gone = True
            self._answered.set()
            self._control.close()


def _read(pipe: FileIO, timeout_s: float) -> dict[str, Any] | None:
    """Read the template's message on a pipe: {} if it closed the pipe, None on a timeout."""
    if not select.select([pipe], [], [], timeout_s)[0]:
        return None
    return _words(pipe.readline())


def _words(line: bytes) -> dict[str, Any]:
    try:
        words: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return words


@dataclass(frozen=True)
class Key:
    """The state that a template and its forks share from the start."""

    module: str
    environment: frozenset[tuple[str, str]]
    folder: str
    cores: frozenset[int]
    memory_bytes: int | None


def key_of(target: Target, environment: Mapping[str, str]) -> Key | None:
    """Return the key of the target's template; None if its workers are not forked."""
    other_python = target.python or python_of(target.framework)
    if not KEEPER or environment.get(OFF) or target.framework not in FORKED or not target.on_cpu or other_python:
        return None
    if available_memory_bytes() < LEAST_FREE_BYTES:
        return None
    shared = {name: value for name, value in environment.items() if name != MARK} | dict.fromkeys(LATE, "1")
    try:
        folder = str(Path.cwd())
    except OSError:  # it was removed
        return None
    module = FRAMEWORKS[target.framework].module
    cores = frozenset(os.sched_getaffinity(0))
    return Key(module, frozenset(shared.items()), folder, cores, process_memory_limit())


class Templates:
    """All templates of a program. ``fresh`` counts why forkable workers were started afresh."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.fresh: Counter[str] = Counter()
        self._command = command
        self._guard = threading.Lock()
        self._known: dict[Key, list[Template]] = {}
        """Least recently used keys first; per key, the template whose turn it is comes first."""
        self._retired: list[Template] = []

    def warm(self, target: Target, environment: Mapping[str, str]) -> None:
        """Start templates for such workers in the background."""
        if (key := key_of(target, environment)) is not None:
            with self._guard:
                turn = self._turn(key)
                turn += [self._new(key) for _ in range(len(turn), IN_TURN)]

    def of(
        self, wanted: Sequence[tuple[Target, Mapping[str, str]]], deadline_s: float, check: Check = go_on
    ) -> tuple[Template | None, ...]:
        """Return the template of each worker that starts side by side; None for those that must start afresh.

        ``check`` may end the wait. Raises WorkerLost if a template hangs while importing the framework; nothing is
        forked from that one later.
        """
        keys = [key_of(*worker) for worker in wanted]
        with self._guard:
            turns = {key: self._turn(key) for key in dict.fromkeys(keys) if key is not None}
            chosen = {key: turn.pop(0) if len(turn) >= IN_TURN else self._new(key) for key, turn in turns.items()}
            for key, template in chosen.items():
                turns[key].append(template)
                template.starts += 1
            waiting = [template for turn in turns.values() for template in turn]  # imports in progress disturb
        end_s = time.monotonic() + deadline_s
        for template in waiting:
            while not template.wait(SLICE_S):
                check()
                if time.monotonic() > end_s:
                    template.refused = HUNG.format(seconds=deadline_s)
                    template.end()
                    raise WorkerLost("hung", template.refused)
        for template in chosen.values():
            if not template.usable:
                self.fresh[template.refused or "The template is gone."] += 1
        return tuple(template if key is not None and (template := chosen[key]).usable else None for key in keys)

    def close(self) -> None:
        """End all templates."""
        with self._guard:
            templates = [*self._retired, *(template for turn in self._known.values() for template in turn)]
            self._known.clear()
            self._retired.clear()
        for template in templates:
            template.end()

    def _turn(self, key: Key) -> list[Template]:
        """Return the templates of a key in turn, without those gone or used up, and mark the key as recently used."""
        turn = self._known.pop(key, [])
        while len(self._known) >= MOST_KINDS:
            for template in self._known.pop(next(iter(self._known))):
                self._retire(template)
        for template in [old for old in turn if not old.refused and (old.gone or old.starts >= STARTS_A_TEMPLATE)]:
            self._retire(template)
            turn.remove(template)
        self._known[key] = turn
        return turn

    def _retire(self, template: Template) -> None:
        template.retire()
        self._retired = [retired for retired in (*self._retired, template) if not retired.ended]

    def _new(self, key: Key) -> Template:
        return Template(dict(key.environment), (*self._command, key.module))


TEMPLATES = Templates()
atexit.register(TEMPLATES.close)
