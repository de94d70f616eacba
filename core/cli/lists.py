"""Support for flags with several values: ``--targets a b c`` as well as ``--targets a --targets b``."""

from __future__ import annotations

import click


class ListsCommand(click.Command):
    """A command whose options with ``multiple`` take every value up to the next flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lists = {flag for option in self.params if getattr(option, "multiple", False) for flag in option.opts}
        return super().parse_args(ctx, _repeated(args, lists))


def _repeated(args: list[str], flags: set[str]) -> list[str]:
    """Repeat the flag before each further value of such a flag."""
    words: list[str] = []
    flag = ""
    for place, arg in enumerate(args):
        if arg.startswith("-"):
            flag = arg.partition("=")[0]
            flag = flag if flag in flags else ""
        elif flag and (args[place - 1] != flag):
            words.append(flag)
        words.append(arg)
    return words
