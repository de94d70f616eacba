"""``python -m core`` and ``breakeven``. Ctrl-C is obeyed in one word while modules are loaded, too."""

import signal
import sys


def main(arguments: list[str] | None = None, program: str = "python -m core") -> int:
    """Run a command and return its exit status (:func:`core.cli.main`)."""
    try:
        from core.cli import main as run

        return run(arguments, program)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 1


def run_to_end(arguments: list[str] | None = None, program: str = "python -m core") -> int:
    """As :func:`main`; a Ctrl-C after that is not heard, which would be a traceback while Python itself ends."""
    status = main(arguments, program)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return status


def breakeven() -> int:
    """The console script: a command, or without one the dashboard."""
    return run_to_end(sys.argv[1:] or ["dashboard"], "breakeven")


if __name__ == "__main__":
    sys.exit(run_to_end())
