"""Run a user's script and write down where its time goes: ``python script.py OPTIONS.json train.py its arguments``.

It runs by its path, in the interpreter of the script, and imports the standard library alone: the script may have a
package called ``core`` itself, and its environment may lack every package of ours. What is written is read by
:mod:`core.studies.job.capture`.

The clock has one current part at any time (``steps``, ``input``, ``own`` …). Entering and leaving a part adds the time
since the last change to the part that ends, so the parts sum to the wall time by construction, and what no rule names
stays visible as ``loop``, the time inside Keras that is none of the others.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

WRITE_EVERY_S = 2.0
MAX_DURATIONS, MAX_TRACED, MAX_PHASES, MAX_MODELS, MAX_LENGTHS = 2_000, 200, 60, 20, 4_096
IN_VALIDATION = frozenset({"steps", "data", "input", "epoch", "calls"})
"""Parts that count as validation while ``fit`` evaluates."""


class Reached(BaseException):
    """The script has done as many steps as it was asked for. No ``except Exception`` of the script's catches it."""


class Phase:
    """Steps of one kind with one model, such as those of ``fit``: raw durations, without statistics.

    ``durations_s`` holds every ``stride``-th step; ``traced`` the steps in which something was traced or compiled, each
    as its duration and the part of it that waited for input. ``calls`` counts calls of ``fit`` or ``predict``;
    ``epochs`` holds duration and steps of each epoch. ``late_s``: waiting for results after steps had returned.
    ``lengths`` counts batches by the second axis of their first input, where that may vary.
    """

    def __init__(self, kind: str, model: int | None) -> None:
        self.kind, self.model = kind, model
        self.calls = self.steps = self.samples = 0
        self.batch: int | None = None
        self.seconds = self.wait_s = self.late_s = 0.0
        self.durations_s: list[float] = []
        self.stride = 1
        self.traced: list[tuple[float, float]] = []
        self.epochs: list[tuple[float, int]] = []
        self.facts: dict[str, Any] = {}
        self.lengths: dict[int, int] = {}

    def take(self, rows: int | None, length: int | None) -> None:
        """Add one batch that Python sees: the first tells the batch size."""
        self.batch, self.samples = self.batch or rows, self.samples + (rows or 0)
        if length is not None:
            self.lengths[length] = self.lengths.get(length, 0) + 1

    def add(self, seconds: float) -> None:
        """Add a step in which nothing was traced."""
        if self.steps % self.stride == 0:
            self.durations_s.append(seconds)
            if len(self.durations_s) > MAX_DURATIONS:
                self.durations_s = self.durations_s[::2]
                self.stride *= 2


class Watch:
    """Clock, phases and models of one script.

    ``stop_after``: number of steps after which the script is ended, 0 for none. ``paused`` switches everything off but
    the wrappers themselves (benchmarks/watching.py measures the difference).
    """

    def __init__(self, path: Path, stop_after: int = 0, started_s: float | None = None) -> None:
        self.path, self.stop_after = path, stop_after
        self.paused = self.validating = self.traced = False
        self.phases: dict[tuple[str, int | None, str], Phase] = {}
        self.models: list[dict[str, Any]] = []
        self.callbacks: dict[str, float] = {}
        self.versions: dict[str, str] = {"python": ".".join(map(str, sys.version_info[:3]))}
        self.imports: dict[str, float] = {}
        self.optimizers: dict[str, bool] = {}
        self.steps = 0
        self.describe: Callable[[Any], dict[str, Any]] = lambda _: {}
        self.gpus: Callable[[], int] = lambda: 0
        self._thread = threading.get_ident()
        self._part = "own"
        self._gpus = 0
        self._stack: list[str] = []
        self._known: list[Any] = []
        self._written_s = self._since = time.perf_counter()
        before_s = 0.0 if started_s is None else max(0.0, time.time() - started_s)
        self._begin = self._since - before_s
        self.seconds: dict[str, float] = {"start": before_s}

    @property
    def here(self) -> bool:
        """True in the script's own thread, whose time is divided into parts."""
        return not self.paused and threading.get_ident() == self._thread

    @property
    def part(self) -> str:
        return self._part

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._begin

    def enter(self, part: str) -> None:
        """Begin a part inside the current one. Whatever a callback does is the callback's."""
        self._stack.append(self._part)
        if self._part == "callbacks":
            part = "callbacks"
        self._change("validation" if self.validating and part in IN_VALIDATION else part)

    def leave(self) -> None:
        """Return to the part that the current one began in."""
        self._change(self._stack.pop())

    def end_step(self) -> None:
        """Count what is left of ``fit`` from its first step on as between steps (seen: 0.05 to 1 ms per step)."""
        if self._part == "loop":
            self._change("between")

    def _change(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since
        self._since, self._part = now, part

    @contextlib.contextmanager
    def during(self, part: str) -> Iterator[None]:
        self.enter(part)
        try:
            yield
        finally:
            self.leave()

    def around(self, function: Callable[..., Any], part: str, name: str = "") -> Callable[..., Any]:
        """Return the function with its time counted as a part; with a ``name``, as that callback's, too."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if not self.here:
                return function(*args, **kwargs)
            begin = time.perf_counter()
            self.enter(part)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()
                if name:
                    self.callbacks[name] = self.callbacks.get(name, 0.0) + time.perf_counter() - begin

        return watched

    def phase(self, kind: str, model: Any = None, variant: str = "") -> Phase:
        """Return the phase of that kind, model and variant, such as another kind of input; a new one if it is the
        first; beyond a limit, one for all others.
        """
        number = None if model is None else self.number_of(model)
        if (kind, number, variant) not in self.phases and len(self.phases) >= MAX_PHASES:
            kind, number, variant = "others", None, ""
        return self.phases.setdefault((kind, number, variant), Phase(kind, number))

    def number_of(self, model: Any) -> int:
        """Return the model's place in the order of first use; the model is described at its first phase's end."""
        for number, known in enumerate(self._known):
            if known is model:
                return number
        self._known.append(model)
        self.models.append({})
        return len(self._known) - 1

    def describe_models(self) -> None:
        """Describe every model that is not described yet."""
        with self.during("watch"):
            for number, model in enumerate(self._known[:MAX_MODELS]):
                if "kind" not in self.models[number]:
                    self.models[number].update(self.describe(model))

    def step(self, phase: Phase, call: Callable[[], Any], wait_s: Callable[[], float] = lambda: 0.0) -> Any:
        """Run one step of a phase. ``wait_s`` adds the wait for input to the phase, and returns what it added."""
        before, self.traced = self.traced, False
        begin = time.perf_counter()
        self.enter("steps")
        try:
            result = call()
        finally:
            self.leave()
            traced, self.traced = self.traced, before
        seconds = time.perf_counter() - begin
        if traced:
            waited = min(wait_s(), seconds)
            if len(phase.traced) < MAX_TRACED:
                phase.traced.append((seconds, waited))
        else:
            phase.add(seconds)
        phase.steps += 1
        phase.seconds += seconds
        self.steps += 1
        if self._since - self._written_s > WRITE_EVERY_S:
            self.write("running")
        if self.steps == self.stop_after:
            raise Reached
        return result

    def end(self, ended: str) -> None:
        """Write everything for the last time, with the number of GPUs, which the script's framework now knows."""
        with contextlib.suppress(Exception):  # a framework that the script left in a state of its own
            self._gpus = self.gpus()
        self.write(ended)

    def write(self, ended: str) -> None:
        """Write everything so far; a file is replaced in one step, so that a reader never sees half of it."""
        with self.during("watch"):
            self._written_s = time.perf_counter()
            writing_s = self.seconds.get("watch", 0.0) + self._written_s - self._since
            data = {
                "ended": ended,
                "wall_s": self._written_s - self._begin,
                "seconds": {name: value for name, value in self.seconds.items() if value > 0} | {"watch": writing_s},
                "callbacks": dict(sorted(self.callbacks.items(), key=lambda item: -item[1])[:40]),
                "imports": dict(sorted(self.imports.items(), key=lambda item: -item[1])[:20]),
                "versions": self.versions,
                "phases": [
                    vars(phase) | {"lengths": sorted(phase.lengths.items())[:MAX_LENGTHS]}
                    for phase in self.phases.values()
                    if phase.steps or phase.calls
                ],
                "models": self.models[:MAX_MODELS],
                "optimizers": self.optimizers,
                "gpus": self._gpus,
            }
            draft = self.path.with_suffix(".part")
            draft.write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
            draft.replace(self.path)


class Imports(importlib.abc.MetaPathFinder):
    """Counts the time of imports, and calls a hook once a module is loaded.

    Only the outermost import of a chain counts, since it holds the others.
    """

    def __init__(self, watch: Watch, hooks: dict[str, Callable[[], None]]) -> None:
        self._watch, self._hooks, self._depth = watch, hooks, 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if type(spec.loader) in (importlib.machinery.SourceFileLoader, importlib.machinery.ExtensionFileLoader):
                    spec.loader.exec_module = self._timed(spec.loader.exec_module, name)  # type: ignore[union-attr, method-assign]
                return spec
        return None

    def _timed(self, execute: Callable[[types.ModuleType], None], name: str) -> Callable[[types.ModuleType], None]:
        def timed(module: types.ModuleType) -> None:
            outermost = self._depth == 0 and self._watch.here
            if not outermost:
                execute(module)
            else:
                self._depth, begin = 1, time.perf_counter()
                try:
                    with self._watch.during("import"):
                        execute(module)
                finally:
                    self._depth = 0
                    package = name.partition(".")[0]
                    seconds = self._watch.imports.get(package, 0.0) + time.perf_counter() - begin
                    self._watch.imports[package] = seconds
            if (hook := self._hooks.pop(name, None)) is not None:
                with self._watch.during("watch"):
                    hook()

        return timed


def beside(name: str) -> types.ModuleType:
    """Return a module that lies beside this file, under a name that no script uses."""
    spec = importlib.util.spec_from_file_location(f"_breakeven_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(watch: Watch, script: str, arguments: Sequence[str], is_module: bool) -> int:
    """Run the script as ``python script arguments`` would, and return its exit status."""
    ended, status = "finished", 0
    sys.argv = [script, *arguments]
    try:
        if is_module:
            import runpy

            sys.path[0] = str(Path.cwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(script).resolve().parent)
            main = types.ModuleType("__main__")
            main.__dict__.update(__file__=script, __builtins__=__builtins__)
            sys.modules["__main__"] = main
            exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)
    except Reached:
        ended = "stopped"
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        ended = "finished" if status == 0 else "failed"
    except KeyboardInterrupt:
        ended, status = "interrupted", 130
    except BaseException:
        _print_error()
        ended, status = "failed", 1
    watch.describe_models()
    watch.end(ended)
    return status


def _print_error() -> None:
    """Print the script's traceback without the frames of this file."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def main() -> None:
    """Read the options (``out``, ``stop_after``, ``started_s``, ``module``) and run the script."""
    options = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    watch = Watch(Path(options["out"]), options["stop_after"], options["started_s"])
    watch_keras, watch_frameworks = beside("keras_hooks"), beside("framework_hooks")
    hooks = {
        "keras": lambda: watch_keras.install(watch),
        "tensorflow": lambda: watch_frameworks.install_tensorflow(watch),
        "jax": lambda: watch_frameworks.install_jax(watch),
    }
    sys.meta_path.insert(0, Imports(watch, hooks))
    status = run(watch, sys.argv[2], sys.argv[3:], options["module"])
    sys.exit(status)


if __name__ == "__main__":
    main()
