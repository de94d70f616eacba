"""The command line: ``python -m core sweep``, ``verdict``, ``frontier``, ``memory``, ``batch`` and others.

Installed as a package the same program is called ``breakeven``, and without a command it opens the dashboard. Exit
status: 0 for any honest verdict (a cancelled sweep's, too), 2 for bad input with one sentence on stderr, 1 for a
failure, also of a check that ``selfcheck`` makes; ``check`` has its own (:mod:`core.cli.check`). Modules that are slow
to load are imported where a command needs them; only worker processes, and the one that ``devices --probe`` starts,
ever load a framework.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import click

from core import __version__
from core.base.numbers import headers
from core.base.schema import UserError
from core.base.text import cut
from core.cli.answers import verdict
from core.cli.batch import batch_command
from core.cli.check import check_command
from core.cli.dashboard import dashboard
from core.cli.devices import devices
from core.cli.diagnose import diagnose_command
from core.cli.fleet import fleet_command
from core.cli.frontier import frontier_command
from core.cli.gpus import gpus_command
from core.cli.memory import memory_command
from core.cli.pipeline import pipeline_command
from core.cli.pitfalls import pitfalls_command
from core.cli.predict import predict_command
from core.cli.prune import prune
from core.cli.report import report
from core.cli.resolution import resolution_command
from core.cli.scaling import scaling_command
from core.cli.selfcheck import selfcheck_command
from core.cli.sweep import sweep
from core.cli.terminal import leave_streams, say, say_lines, unprinted
from core.cli.trace import trace
from core.cli.validate import validate_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="Breakeven %(version)s")
def commands() -> None:
    """From which batch size on is one target faster than another? Measure it, and read the verdict."""


STUDIES = (diagnose_command, pipeline_command, frontier_command, scaling_command, memory_command, batch_command)
for command in (
    devices,
    selfcheck_command,
    sweep,
    verdict,
    report,
    check_command,
    resolution_command,
    fleet_command,
    trace,
    pitfalls_command,
    *STUDIES,
    gpus_command,
    predict_command,
    validate_command,
    prune,
    dashboard,
):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None, program: str = "python -m core") -> int:
    """Run a command and return its exit status. ``program`` is its name in help and usage."""
    before = headers.set(set())
    try:
        return int(commands.main(arguments, prog_name=program, standalone_mode=False) or 0)
    except click.ClickException as error:
        say_lines(cut(error.format_message()))
        return error.exit_code
    except UserError as error:
        say(str(error))
        return 2
    except click.Abort:  # Ctrl-C before or after a sweep; during one it ends the sweep
        say("Stopped.")
        return 1
    except Exception as error:  # a defect of this program; its message may quote outside text, too
        lost = unprinted(error)
        say_lines(lost.format_message() if lost else traceback.format_exc().rstrip())
        return 1
    finally:
        headers.reset(before)
        leave_streams()
