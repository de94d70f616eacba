"""The command line: ``python -m core sweep``, ``verdict``, ``frontier``, ``memory``, ``batch`` and others.

Installed as a package the same program is called ``breakeven``, and without a command it opens the dashboard. Exit
status: 0 for any honest verdict (a cancelled sweep's, too), 2 for bad input with one sentence on stderr, 1 for a
failure, also of a check that ``selfcheck`` makes; ``check`` has its own (:mod:`core.cli.check`). A command is found by
its module in this package, ``core/cli/<command>.py``. Modules that are slow to load are imported where a command needs
them; only worker processes, and the one that ``devices --probe`` starts, ever load a framework.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Sequence

import click

from core import __version__
from core.base.numbers import headers
from core.base.schema import UserError
from core.base.text import cut
from core.cli.terminal import leave_streams, say, say_lines, unprinted


class Commands(click.Group):
    """The commands of this package; a call loads the module of its command only."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _declared(cmd_name) if cmd_name in _modules() else None


def all_commands() -> dict[str, click.Command]:
    """Return the command of every module that declares one of its own name."""
    return {name: command for name in sorted(_modules()) if (command := _declared(name)) is not None}


def _modules() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(__path__)]


def _declared(module: str) -> click.Command | None:
    members = vars(importlib.import_module(f"{__name__}.{module}")).values()
    return next((item for item in members if isinstance(item, click.Command) and item.name == module), None)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="Breakeven %(version)s")
def commands() -> None:
    """From which batch size on is one target faster than another? Measure it, and read the verdict."""


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
