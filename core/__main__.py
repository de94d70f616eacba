"""``python -m core`` and ``breakeven``. Ctrl-C is obeyed in one word while modules are loaded, too."""

import sys


def main(arguments: list[str] | None = None, program: str = "python -m core") -> int:
    """Run a command and return its exit status (:func:`core.cli.main`)."""
    try:
        from core.cli import main as run

        return run(arguments, program)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 1


def breakeven() -> int:
    """The console script: a command, or without one the dashboard."""
    return main(sys.argv[1:] or ["dashboard"], "breakeven")


if __name__ == "__main__":
    sys.exit(main())
