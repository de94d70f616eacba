"""Flags that name a network, the same in every command: a preset, sizes, an architecture file, or a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from core.base.schema import UserError
from core.cli.files import FILE, F, read_bytes, together
from core.networks.architecture.read import MAX_ARCHIVE_BYTES
from core.networks.families import Choice, Network, families, network_from_name
from core.networks.families.own import Own

DEFAULT_FAMILY = "mlp"
OF_CODE = "code"  # a family of its own, made by --model
FEW_WORDS = 4  # most values listed in a flag's help


def network_options() -> Callable[[F], F]:
    """Return a decorator with a flag for every way to name a network, and for every size of every family."""
    names = [name for name in families() if name != OF_CODE]
    return together(
        click.option(
            "--family",
            type=click.Choice(names),
            help=f"Family of networks (default: the one that has the given sizes, {DEFAULT_FAMILY} first).",
        ),
        click.option("--preset", help="Network by its short name, such as 784-512-512-10, lenet5 or ResNet50@96:10."),
        size_options(),
        click.option(
            "--architecture",
            type=FILE,
            help="Your own architecture: the text of model.to_json(), or a .keras or .h5 file.",
        ),
        click.option(
            "--model",
            metavar="PACKAGE.MODULE:FUNCTION",
            help="Your own code, which returns a Keras model, or for framework=pytorch an nn.Module.",
        ),
    )


def network_flags() -> list[str]:
    """Return the names of these flags' parameters."""
    return ["family", "preset", *_sizes(), "architecture", "model"]


def size_options() -> Callable[[F], F]:
    """Return a decorator with a flag for every size of every family."""
    return together(*(click.option(flag_of(name), name, help=_help(name), metavar=_metavar(name)) for name in _sizes()))


def network_of(flags: dict[str, Any]) -> Network:
    """Return the network from the flags. Raises UserError."""
    sizes = {name: flags[name] for name in _sizes() if flags[name] is not None}
    ways = [name for name in ("preset", "architecture", "model") if flags[name] is not None]
    if ways:
        others = [flag_of(name) for name in (*ways[1:], *sizes)]
        if flags["family"] is not None and ways[0] != "preset" and flags["family"] != _family_of(ways[0]):
            others.append("--family")
        if others:
            raise UserError(f"{flag_of(ways[0])} names the whole network; leave it out, or {', '.join(others)}.")
    if flags["preset"] is not None:
        return network_from_name(flags["preset"], flags["family"])
    if flags["architecture"] is not None:
        path: Path = flags["architecture"]
        return Own.from_file(read_bytes(path, MAX_ARCHIVE_BYTES, "an architecture"), path.name)
    if flags["model"] is not None:
        from core.cli.model_code import network_from_code

        targets = flags.get("targets") or filter(None, [flags.get("target")])
        return network_from_code(flags["model"], flags.get("budget_s"), tuple(targets))
    family = flags["family"] or _family_with(list(sizes))
    if [*sizes] == ["application"]:  # named alone: the defaults of keras.applications, not a form's
        return network_from_name(sizes["application"], family)
    return families()[family].from_choices(sizes_of(family, sizes))


def _family_with(sizes: list[str]) -> str:
    """Return the only family with all these sizes, or the default one if it has them or none has. Raises UserError.

    Of several, one that is trained goes before one that is not.
    """
    having = [name for name, kind in families().items() if {*sizes} <= {choice.name for choice in kind.choices}]
    having = [name for name in having if families()[name].trains] or having
    if DEFAULT_FAMILY in having or not having:
        return DEFAULT_FAMILY
    if len(having) > 1:
        raise UserError(f"{' and '.join(map(flag_of, sizes))} may mean {' or '.join(having)}; say which with --family.")
    return having[0]


def _family_of(way: str) -> str:
    return "own" if way == "architecture" else OF_CODE


def sizes_of(family: str, flags: dict[str, Any]) -> dict[str, int]:
    """Return every size of a family, from its flags or its defaults. Raises UserError."""
    choices = {choice.name: choice for choice in families()[family].choices}
    if not choices:
        raise UserError("Your own architecture comes from a file; name it with --architecture.")
    named = {name: flags[name] for name in _sizes() if flags.get(name) is not None}
    if stray := [name for name in named if name not in choices]:
        having = " or ".join(other for other, _ in _having(stray[0]))
        raise UserError(f"{flag_of(stray[0])} is no size of {family}; leave it out, or choose --family {having}.")
    defaults = {name: choice.default for name, choice in choices.items()}
    return defaults | {name: _number(choices[name], text) for name, text in named.items()}


def _number(choice: Choice, text: str) -> int:
    if choice.words:
        return choice.number(text)
    digits = text.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise UserError(f"{flag_of(choice.name)} is “{text[:40]}”; accepted is a whole number.")
    return int(text)


def flag_of(name: str) -> str:
    """Return the flag of a parameter: ``--feed-forward`` for feed_forward."""
    return f"--{name.replace('_', '-')}"


def _sizes() -> list[str]:
    """Return the distinct names of all choices of all families."""
    return list({choice.name: None for kind in families().values() for choice in kind.choices})


def _having(name: str) -> Iterator[tuple[str, Choice]]:
    """Yield the families that have a choice of that name, with the choice."""
    for family, kind in families().items():
        for choice in kind.choices:
            if choice.name == name:
                yield family, choice


def _help(name: str) -> str:
    """Return the help of a size flag; families with the same meaning share an entry."""
    families_by_text: dict[str, list[str]] = {}
    for family, choice in _having(name):
        families_by_text.setdefault(f"{choice.label}, {_accepted(choice)}", []).append(family)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in families_by_text.items()) + "."


def _accepted(choice: Choice) -> str:
    if choice.words:
        words = " or ".join(choice.words) if len(choice.words) <= FEW_WORDS else "a name"
        return f"{words} (default {choice.words[choice.default - choice.low]})"
    return f"{choice.low:,} to {choice.high:,} (default {choice.default:,})"


def _metavar(name: str) -> str:
    return "WORD" if next(_having(name))[1].words else "N"
