"""Workers that run the script again, up to its model: for what a model's configuration does not hold.

A module is written into a folder of this study. Its function runs the script in an empty temporary folder until the
model that was captured is built, and returns it; from there on it is code of the user's own
(:mod:`core.networks.families.code`), which only workers import, and only with the permission of ``--rerun``.
"""

from __future__ import annotations

import functools
from pathlib import Path

from core.networks.families import Network
from core.studies.deadlines import first_s
from core.studies.job.breakdown import main_model, mode_of, optimizer_of
from core.studies.job.capture import Capture
from core.studies.job.record import Script
from core.studies.runner import StudyTools
from core.worker import watch
from core.worker.process import launch_processes
from core.worker.protocol import Describe, Launcher
from core.workload.spec import Target, Workload

_launch = functools.partial(launch_processes, allow_code=True)
RERUN_S = 300.0
"""Time that the script has to reach its model."""
MODULE = "breakeven_job_{name}"
SOURCE = '''"""Made by Breakeven: runs a script up to its model."""
import importlib.util

spec = importlib.util.spec_from_file_location("_breakeven_rerun", {rerun!r})
rerun = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rerun)


def model():
    return rerun.model_of({path!r}, {arguments!r}, {is_module!r}, {number!r}, {shape!r})
'''
SCRIPT_PARTS = Path(watch.__file__).with_name("rerun.py")
"""Code that the module runs; it lies beside the watch."""


def network_of(script: Script, capture: Capture, folder: Path, tools: StudyTools) -> Network:
    """Return the script's network as a worker described it that ran the script up to its model.

    Raises UserError if the script fails, or builds a model that cannot be measured.
    """
    model = main_model(capture)
    shape = model.shape
    name = MODULE.format(name=folder.name.rpartition("-")[2])
    path = script.path if script.is_module else str(Path(script.folder, script.path).resolve())
    text = SOURCE.format(
        rerun=str(SCRIPT_PARTS), path=path, arguments=script.arguments, is_module=script.is_module,
        number=capture.models.index(model), shape=None if shape is None else tuple(shape[1:]),
    )  # fmt: skip
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    entry = f"{name}:model"
    target = Target(framework=capture.versions.get("backend", "tensorflow"))
    (worker,) = _launch((target,), first_s(RERUN_S), tools.check, folders=(str(folder),))
    try:
        described = worker.ask(Describe(entry=entry, folder=str(folder)), first_s(RERUN_S))
    finally:
        worker.close()
    return described.network(entry, str(folder))


def workload_of(capture: Capture, network: Network) -> Workload:
    """Return the workload of a network that was taken from the script."""
    return Workload(network=network, mode=mode_of(capture), optimizer=optimizer_of(capture, main_model(capture)))


def launcher() -> Launcher:
    """Return the launcher of workers that may run the script."""
    return _launch
