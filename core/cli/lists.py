"""Support for flags with several values: ``--targets a b c`` as well as ``--targets a --targets b``."""

from __future__ import annotations

import click


class ListsCommand(click.Command):
    """A command whose options with ``multiple`` take every value up to the next flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lists = {flag for option in self.params if getattr(option, "multiple", False) for flag in option.opts}
        end = len(args) if self.allow_interspersed_args else self._first_argument(args, lists)
        return super().parse_args(ctx, [*_repeated(args[:end], lists), *args[end:]])

    def _first_argument(self, args: list[str], lists: set[str]) -> int:
        """Return the place of the first argument that belongs to no flag; whatever follows it is not this command's."""
        switches = [option for option in self.params if getattr(option, "is_flag", False)]
        flags = {flag for option in switches for flag in (*option.opts, *option.secondary_opts)}
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] != "--":
            flag, place = args[place], place + 1
            if flag in lists:
                while place < len(args) and not args[place].startswith("-"):
                    place += 1
            elif flag not in flags and "=" not in flag:
                place += 1  # its value
        return min(place, len(args))


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
