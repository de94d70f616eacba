"""Entry point of ``python -m core`` and ``breakeven``, which answers Ctrl-C with one word, even while modules load."""

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
    """Run :func:`main`, then ignore Ctrl-C, which would otherwise print a traceback while Python itself exits."""
    status = main(arguments, program)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return status


def breakeven() -> int:
    """Run the console script: a command, or the dashboard if none is named."""
    return run_to_end(sys.argv[1:] or ["dashboard"], "breakeven")


if __name__ == "__main__":
    sys.exit(run_to_end())
